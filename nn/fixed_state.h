// The decoding state of a mixer that keeps all earlier positions in tensors of a fixed size.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/mixer.h"

namespace vitrine::nn {

class FixedState : public DecodingState {
 public:
  /// `kind` is the name of the mixer that the state belongs to.
  explicit FixedState(std::string kind) : kind_(std::move(kind)) {}
  int64_t length() const override { return length_; }
  std::unique_ptr<DecodingState> clone() const override;
  std::vector<Tensor*> tensors() override;
  /// Replaces the tensors by those after `positions` more positions.
  void advance(int64_t positions, std::vector<Tensor> after);
  /// The state as one of this kind, or nullptr for nullptr. Errors: a state of another mixer; a
  /// tape that is recording, because a state has no gradient.
  static FixedState* of(DecodingState* state, const std::string& kind);

  std::vector<Tensor> states;  ///< empty before the first position

 private:
  std::string kind_;
  int64_t length_ = 0;
};

}  // namespace vitrine::nn
