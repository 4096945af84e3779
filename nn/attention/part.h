// A part of attention. What the library ships and what a user adds are classes of this one
// interface, each with one row in one table. A part overrides the stages that it changes:
//
//   class Relu2 : public nn::AttentionPart {  // weights = relu(s)², not normalized
//     Traits traits() const override { return {.distribution = false}; }
//     Tensor normalize(const Tensor& scores) const override { return square(relu(scores)); }
//   };
//   nn::register_attention_part({.name = "relu2",
//                                .stage = nn::Stage::normalize,
//                                .help = "squared ReLU of the scores",
//                                .make = [](auto&, auto&) { return std::make_unique<Relu2>(); }});
//   options.attention = "relu2+alibi";
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nn/attention/mask.h"
#include "nn/attention/read_out.h"
#include "nn/module.h"
#include "ops/attention.h"

namespace vitrine::nn {

/// What a part may depend on: H, D, and the longest sequence.
struct AttentionSizes {
  int64_t heads, head_size, context;
};

/// The stages of attention, in the order in which they run. `score`, `scale`, `normalize` and
/// `read` have one owner each, and two parts of such a stage are an error. The others are chains by
/// rank.
enum class Stage { prepare, score, scale, modify, mask, normalize, reweight, read, combine };

/// Where a part comes in its chain, so that "rotary+qk_norm" and "qk_norm+rotary" are one
/// mechanism.
namespace rank {
inline constexpr int norm = 10, rotation = 20, temperature = 30;  // of Stage::prepare
inline constexpr int softcap = 10, mask_bias = 20,
                     distance = 30;  // of Stage::modify; the mask's bias is no part
inline constexpr int other = 40;
}  // namespace rank

/// The factor of the scores, where a query sees n keys.
struct ScaleRule {
  /// For which n: half of the context; a number; or as many as each query sees. The last is folded
  /// into the queries, so that the fused op can follow. Under a causal mask it depends on the
  /// position of the query alone, so that decoding gives what the full pass gives.
  enum class Keys { half_context, given, visible };

  std::function<double(double n)> of;
  std::string name;              ///< "gradient-optimal": for explain()
  std::string key = {};          ///< which function `of` is, apart from the head size
  bool of_dot_products = false;  ///< a multiple of 1/√D, which other scores do not have
  bool constant = false;         ///< n has no influence
  Keys keys = Keys::half_context;
  double n = 2;  ///< of Keys::given; at least 2
};

class AttentionPart : public Module {
 public:
  struct Traits {
    bool distribution = true;         ///< the weights are ≥ 0 and sum to 1
    bool needs_distribution = false;  ///< the part is defined for such weights alone
    bool cacheable =
        true;  ///< prepared keys and values do not depend on later positions: a cache may keep them
    bool positions = false;  ///< scores depend on positions, so a model adds no position embedding
  };
  virtual Traits traits() const { return {}; }
  /// Writes this part into the options of the fused op. False if the fused op cannot express the
  /// part: then the weights are kept. A part that only prepares, masks or combines returns true.
  virtual bool fold(AttentionOptions& /*options*/, Device /*device*/) const { return false; }

  /// x [B, H, T, D] → the same shape. `first` is the position of the first query (key, value). Keys
  /// and values have Hkv heads.
  virtual Tensor prepare_queries(const Tensor& q, int64_t first) const;
  virtual Tensor prepare_keys(const Tensor& k, int64_t first) const;
  virtual Tensor prepare_values(const Tensor& v, int64_t first) const;
  /// Scores [B, H, Tq, Tk] in place of scale·q·kᵀ; k has as many heads as q. From here on all
  /// tensors are float32 where the queries are of low precision. Undefined: not this part's stage.
  /// No scale goes with it.
  virtual Tensor score(const Tensor& /*q*/, const Tensor& /*k*/) const { return {}; }
  /// The factor of the scores; nullptr: not this part's. That of a part of another stage than
  /// `scale` is used where no part of that stage says otherwise.
  virtual const ScaleRule* scale() const { return nullptr; }
  /// New scores of the same shape, before the mask.
  virtual Tensor modify_scores(const Tensor& scores) const { return scores; }
  /// ∂modify_scores/∂scores, element by element, for the figures of a head; undefined where it is
  /// 1.
  virtual Tensor score_slope(const Tensor& /*scores*/) const { return {}; }
  /// The mask with what this part hides besides.
  virtual AttentionMask restrict(AttentionMask mask) const { return mask; }
  /// Weights in place of the softmax of the scores. It must give 0 for the −∞ of a hidden key.
  /// Undefined: not this part's stage.
  virtual Tensor normalize(const Tensor& /*scores*/) const { return {}; }
  /// Factors ≥ 0, broadcast to the weights [B, H, Tq, Tk]: the weights are multiplied by them and
  /// divided by their new sum. Query i is at position i + Tk − Tq. Undefined: not this part's
  /// stage.
  virtual Tensor weight_factors(const Tensor& /*weights*/) const { return {}; }
  /// How the values are read, in place of the weighted mean. nullptr: not this part's stage.
  virtual const ReadOut* read_out() const { return nullptr; }
  /// What the heads give, [B, H, Tq, D] → the same shape, before they are put side by side.
  virtual Tensor combine(const Tensor& y) const { return y; }
  void fields(Fields&) override {}
};

/// An option of a part, given by name in "rotary=theta=500000:share=0.5", or bare in "softcap=30".
/// A bare value goes to the first option that takes it.
struct PartOption {
  std::string name, help = {};
  /// The value where none is given; empty: one has to be given, unless `optional`
  std::string initial = {};
  std::vector<std::string> words = {};  ///< values that are no number
  /// Whether numbers are values, above `above` and of `least` at least
  bool number = true;
  double above = 0, least = 0;
  bool optional = false;  ///< no value is a value
};

/// The options of a part, complete and in their ranges.
class PartValues {
 public:
  explicit PartValues(std::map<std::string, std::string> values = {}) : values_(std::move(values)) {}
  bool has(const std::string& option) const { return !text(option).empty(); }
  const std::string& text(const std::string& option) const { return values_.at(option); }
  double number(const std::string& option) const { return std::stod(text(option)); }

 private:
  std::map<std::string, std::string> values_;
};

/// A line of the table of parts.
struct AttentionPartRow {
  std::string name;
  Stage stage;
  std::string help = {};
  std::string source = {};  ///< the paper
  int rank = rank::other;   ///< in a chain of parts
  std::string owns = {};    ///< what only one part may have, besides the stages with one owner
  std::vector<PartOption> options = {};
  /// Makes the part for an attention of these sizes.
  std::function<std::unique_ptr<AttentionPart>(const AttentionSizes&, const PartValues&)> make = {};
};

/// Adds a row to the table, for "name+laser" and the like. A name that is taken, or has one of + =
/// : , and spaces in it, and an empty `make` are errors.
void register_attention_part(AttentionPartRow row);
/// The table: the library's parts, and the registered ones if they are asked for.
std::vector<const AttentionPartRow*> attention_part_table(bool registered = true);

}  // namespace vitrine::nn
