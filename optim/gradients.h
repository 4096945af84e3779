// The gradients of parameters, as a list for scaling in place.
#pragma once

#include <memory>
#include <vector>

#include "core/parameter.h"

namespace vitrine::optim {

/// The parameter's gradient, undefined if there is none, for code that writes it by kernels only.
/// Unlike p.grad() it does not end the bookkeeping of written rows (core/written_rows.h).
Tensor gradient_of(const Parameter& p);

/// While this object lives, kernels may write the parameters' gradients in a way that leaves zeros
/// zero, as scaling does.
class ZerosStay {
 public:
  explicit ZerosStay(const std::vector<Parameter>& parameters);
  ~ZerosStay();
  ZerosStay(const ZerosStay&) = delete;
  ZerosStay& operator=(const ZerosStay&) = delete;

 private:
  std::vector<std::shared_ptr<Leaf>> known_;  ///< leaves whose written rows are known
};

/// For each tensor, whether it shares memory with an earlier tensor of the list that itself shares
/// none, or with itself (as an expanded view does). Strides with gaps count as all memory from the
/// first to the last element.
std::vector<bool> share_memory(const std::vector<Tensor>& xs);

/// The gradients of the parameters that have one; a parameter that is listed twice counts once. A
/// gradient that shares memory with another is first replaced by a copy, so that each may be
/// written in place.
std::vector<Tensor> separate_gradients(const std::vector<Parameter>& parameters);

}  // namespace vitrine::optim
