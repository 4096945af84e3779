// Attention as a composition of parts, chosen by name:
//
//   prepare(q, k, v) → score → score_mod → mask → normalize → read
//
//   "standard"                 scaled dot product, softmax, weighted mean
//   "laser+qk_norm+alibi"      LASER read over the values, normalized queries and keys, ALiBi distances
#pragma once

#include <optional>
#include <string>

#include "nn/attention/mask.h"
#include "nn/attention/part.h"
#include "nn/attention/positions.h"
#include "nn/module.h"

namespace vitrine::nn {

/// Which parts an attention is made of. parse_attention makes one from a name.
struct AttentionSetting {
  enum class Score { dot, cosine };        ///< q·k, or that of unit vectors
  enum class QkNorm { none, layer, rms };  ///< of queries and keys before the scores, with learned gains
  /// What multiplies the scores. For `dot` all but `constant` come on top of 1/√D; for `cosine` the scale is the whole
  /// factor. `optimal`, `entropy` and cosine scores have the scales of nn/attention/scale.h for n keys.
  enum class Scale { standard, optimal, entropy, constant };
  /// Which n: half the context, a number of the user's, or how many keys each query sees. The last is folded into the
  /// queries, so that the fused op can follow; under a causal mask it depends on a query's position alone, so that decoding
  /// gives what the full pass gives.
  enum class Keys { half_context, given, visible };

  Score score = Score::dot;
  QkNorm qk_norm = QkNorm::none;
  double qk_norm_eps = 1e-6;
  Scale scale = Scale::standard;
  double constant = 1;  ///< of Scale::constant; more than 0
  Keys keys = Keys::half_context;
  double n = 2;              ///< of Keys::given; at least 2
  bool temperature = false;  ///< a learned scale per channel of q
  bool rotary = false;       ///< positions as rotations; wants an even head size
  bool alibi = false;        ///< positions as a slope per head
  double softcap = 0;        ///< c·tanh(s/c), 0 = none
  AttentionRead read = AttentionRead::mean;
  std::vector<std::string> extra;  ///< parts of register_mechanism, in order
};

/// "laser+qk_norm+alibi" as a setting. An unknown part is an error that suggests the nearest known one; parts that exclude
/// each other are an error that says why.
AttentionSetting parse_attention(const std::string& name);
/// The parts that parse_attention knows, one a line with what it does.
std::string attention_parts();

/// What attention did, for display and for gradients by path.
struct AttentionTrace {
  Tensor q, k, v;    ///< after preparation, [B, H, T, D]
  Tensor weights;    ///< [B, H, Tq, Tk]
  double scale = 1;  ///< what multiplied q·k
  Tensor row_scale;  ///< and that, for each query: broadcast to [B, H, Tq, 1]; undefined where it is 1
  Tensor visible;    ///< bool, broadcast to the weights; undefined where no key is hidden
  bool distribution = true;  ///< the weights are ≥ 0 and sum to 1
  Tensor cap_slope;  ///< 1 − tanh²(s/c) of the softcap, like the weights; undefined where there is no softcap
};

/// One attention mechanism over heads that are already split: q [B, H, Tq, D], k and v [B, Hkv, Tk, D] → [B, H, Tq, D].
/// Query head h reads key head h/(H/Hkv). A query that sees no key gives 0, and its gradient is 0.
class Attention : public Module {
 public:
  /// `context`: the longest sequence, for the scales that depend on it.
  Attention(AttentionSetting setting, int64_t heads, int64_t head_size, int64_t context);

  /// `first_query` is the position of the first query, for rotary positions; Tk − Tq agrees with masks and ALiBi. Keys and
  /// values come prepared by the functions below. With a trace the weights are kept, which the fused path never does.
  Tensor forward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask,
                 int64_t first_query = 0, AttentionTrace* trace = nullptr) const;
  /// Normalized and rotated keys, and the values of parts that prepare them: what a cache keeps.
  Tensor prepare_keys(const Tensor& k, int64_t first) const;
  Tensor prepare_values(const Tensor& v, int64_t first) const;
  /// An error that names the part whose keys and values a cache cannot keep, if there is one.
  void check_cacheable() const;

  /// Fused: ops/attention.h, tile by tile. Definition: the same op as simpler ones. Generic: the weights are a tensor.
  enum class Path { fused, definition, generic };
  /// The path of a forward on this thread with this mask, under the tape that records now.
  Path path(bool weights_wanted = false, const AttentionMask& mask = {}) const {
    return choose(weights_wanted, mask).path;
  }
  /// Which path that is, and why; and what the scores are multiplied by.
  std::string explain(bool weights_wanted = false, const AttentionMask& mask = {}) const;

  /// The factor of q·k, or of the cosine; for Keys::visible that of a query which sees context/2 keys.
  double scale() const { return scale_; }
  const AttentionSetting& setting() const { return setting_; }
  void fields(Fields& f) override;
  Attention clone();

  Parameter query_gain, key_gain;                     ///< [D], of QK-norm
  Parameter log_temperature;                          ///< [D]; q is multiplied by softplus(w)/log 2
  std::vector<std::unique_ptr<AttentionPart>> extra;  ///< one per name in setting().extra

 private:
  Tensor prepare_queries(const Tensor& q, int64_t first) const;
  Tensor normalize(const Tensor& x, const Parameter& gain) const;
  struct Choice {
    Path path;
    std::string reason;
  };
  Choice choose(bool weights_wanted, const AttentionMask& mask) const;
  template <class F>
  Tensor stage_of_parts(const char* what, F&& stage) const;
  Tensor slopes(Device device) const;
  Tensor row_scale(const AttentionMask& mask, int64_t queries, int64_t keys, DType dtype,
                   Device device) const;
  Tensor generic(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask,
                 const Tensor& row_scale, AttentionTrace* trace) const;

  AttentionSetting setting_;
  AttentionSizes sizes_;
  double scale_;
};

/// log(weights·e^v), computed so that neither small nor large values lose digits (nn/attention/laser.cpp), in float32 or
/// float64: e^v does not fit into less. The weights are the softmax of `scores`, which tell weights too small for their dtype
/// apart; undefined, where they are no softmax. `visible`, broadcast to [B, H, Tq, Tk] or undefined, says which keys have a weight: those
/// that none sees have no influence.
Tensor laser_read(const Tensor& weights, const Tensor& scores, const Tensor& v, const Tensor& visible = {});

}  // namespace vitrine::nn
