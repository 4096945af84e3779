// Attention as a composition of parts:
//
//   prepare(q, k, v) → score → scale → modify → mask → normalize → reweight → read → combine
//
//   "standard"              scaled dot product, softmax, weighted mean
//   "laser+qk_norm+alibi"   LASER read of the values, normalized queries and keys, ALiBi
//
// If every part can be folded into the fused op, the weights are never stored as a tensor.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nn/attention/names.h"

namespace vitrine::nn {

class ComposedAttention : public Attention {
 public:
  /// `context`: the longest sequence; some scales depend on it. Parts that exclude each other are
  /// an error that gives the reason.
  ComposedAttention(AttentionName name, int64_t heads, int64_t head_size, int64_t context);

  Tensor forward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask,
                 DecodingState* state = nullptr, MixerTrace* trace = nullptr) const override;

  /// fused: ops/attention.h, tile by tile. definition: the same op, composed of simpler ops.
  /// generic: the parts run one after another, and the weights are a tensor.
  enum class Path { fused, definition, generic };
  /// The path of a forward pass on this thread with this mask and the tape that is recording.
  Path path(bool weights_wanted = false) const { return choose(weights_wanted).path; }
  bool needs_positions() const override;
  std::string explain(bool weights_wanted = false, const AttentionMask& mask = {}) const override;

  /// The factor of the scores. If the factor depends on the number of visible keys, this is the
  /// factor for context/2 keys.
  double scale() const { return scale_; }
  const AttentionName& name() const { return name_; }
  const AttentionSizes& sizes() const { return sizes_; }
  /// The weights of scores [.., Tq, Tk], of which those of hidden keys are −∞: their softmax, or
  /// what a part puts in its place. `visible` and `empty_rows` of the result are not set.
  Weighting normalize(const Tensor& scores) const;
  /// MixerTrace::weight_slope of what normalize() returns.
  Tensor weight_slope(const Tensor& weights) const;
  /// The read-out of the part that has one; nullptr: a weighted mean.
  const ReadOut* read_out() const;
  void fields(Fields& f) override;
  ComposedAttention clone();

  std::vector<std::unique_ptr<AttentionPart>> parts;  ///< one per part of the name

 private:
  struct Choice {
    Path path;
    std::string reason;
  };
  void check_parts() const;
  void check_cacheable() const;
  Choice choose(bool weights_wanted) const;
  const std::string& name_of(size_t part) const { return name_.parts[part].row->name; }
  double scale_of(double n) const;
  double common_keys() const;
  Tensor scale_table(int64_t last, Device device) const;
  Tensor row_scale(const AttentionMask& mask, int64_t queries, int64_t keys, DType dtype,
                   Device device) const;
  Tensor scaled_dot_products(const Tensor& q, const Tensor& k, const Tensor& row_scale) const;
  Tensor modify(Tensor scores, const AttentionMask& mask, MixerTrace* trace) const;
  bool folds() const { return folded_ == parts.size(); }
  template <class F>
  auto owned_stage(const char* what, F&& stage) const;
  Tensor generic(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask,
                 const Tensor& row_scale, MixerTrace* trace) const;

  AttentionName name_;
  AttentionSizes sizes_;
  ScaleRule rule_;
  size_t folded_;  // the first part that the fused op cannot express, or parts.size()
  double scale_;
};

}  // namespace vitrine::nn
