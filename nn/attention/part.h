// Parts of attention. The parts of the library and those of a user are classes with this one
// interface, each with a row in one table. A part overrides the stages that it changes:
//
//   class Relu2 : public nn::AttentionPart {  // weights = relu(s)², not normalized
//     Traits traits() const override { return {.distribution = false}; }
//     Tensor normalize(const Tensor& scores) const override { return square(relu(scores)); }
//   };
//   nn::register_attention_part({.name = "relu2",
//                                .stage = nn::Stage::normalize,
//                                .help = "squared ReLU of the scores",
//                                .make = [](auto&, auto&) { return std::make_unique<Relu2>(); }});
//   options.mixer = "relu2+alibi";
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nn/attention/mask.h"
#include "nn/attention/positions.h"
#include "nn/attention/read_out.h"
#include "nn/module.h"
#include "ops/attention.h"

namespace vitrine::nn {

/// The sizes that an attention may depend on: H, D, the longest sequence, and the number of its
/// layer, from 1 on, which is 0 outside a stack.
struct AttentionSizes {
  int64_t heads, head_size, context, layer = 0;
};

/// The stages of attention, in the order in which they run. At most one part may define each of
/// `score`, `scale`, `normalize` and `read`; two such parts are an error. At the other stages any
/// number of parts run one after another, in the order of their rank.
enum class Stage { prepare, extend, score, scale, modify, mask, normalize, reweight, read, combine };

/// The place of a part in its chain. Because of ranks, "rotary+qk_norm" and "qk_norm+rotary" are
/// the same mechanism.
namespace rank {
inline constexpr int norm = 10, rotation = 20, temperature = 30;  // of Stage::prepare
// Of Stage::modify; mask_bias is the bias of the mask, not a part.
inline constexpr int softcap = 10, mask_bias = 20, distance = 30;
inline constexpr int other = 40;
}  // namespace rank

/// The factor of the scores, as a function of the number n of keys that a query sees.
struct ScaleRule {
  /// Which n is used: half of the context, a given number, or the number of keys that each query
  /// sees. A factor of the last kind multiplies the queries, so that the fused op can be used.
  /// Under a causal mask it depends only on the position of the query, so that decoding gives the
  /// same result as the full pass.
  enum class Keys { half_context, given, visible };

  std::function<double(double n)> of;
  std::string name;              ///< "gradient-optimal": for explain()
  std::string key = {};          ///< identifies the function `of`, apart from the head size
  bool of_dot_products = false;  ///< a multiple of 1/√D: valid for dot products only
  bool constant = false;         ///< independent of n
  Keys keys = Keys::half_context;
  double n = 2;  ///< for Keys::given; at least 2
};

class AttentionPart : public Module {
 public:
  struct Traits {
    bool distribution = true;         ///< the weights are ≥ 0 and sum to 1
    bool needs_distribution = false;  ///< the part requires such weights
    /// Prepared keys and values do not depend on later positions: a cache may store them
    bool cacheable = true;
    bool positions = false;  ///< scores depend on positions: a model adds no position embedding
    /// Queries and keys must share their positions, although a model also embeds positions: a
    /// window
    bool distances = false;
    /// The gradients of its own parameters are estimates and not derivatives, because its output is
    /// a step function of them
    bool estimated = false;
  };
  virtual Traits traits() const { return {}; }
  /// The numbers of queries and keys, with those of a cache, and their device.
  struct FoldCall {
    int64_t queries = 1, keys = 1;
    Device device = Device::cpu;
  };
  /// Writes this part into the options of the fused op. Returns false if the fused op cannot
  /// express the part; the weights are then stored as a tensor. A part that only prepares, masks or
  /// combines returns true.
  virtual bool fold(AttentionOptions& /*options*/, const FoldCall& /*call*/) const { return false; }

  /// x [B, H, T, D] → the same shape. `at` has the positions of the queries, keys or values. Keys
  /// and values have Hkv heads.
  virtual Tensor prepare_queries(const Tensor& q, const RowPositions& at) const;
  virtual Tensor prepare_keys(const Tensor& k, const RowPositions& at) const;
  virtual Tensor prepare_values(const Tensor& v, const RowPositions& at) const;
  /// Keys and values that every query sees in addition to those of the sequence, [H, M, D] each,
  /// one head per query head. They come first and are not prepared. A query that sees no key of the
  /// sequence sees none of them. Undefined: this part adds none.
  struct Memory {
    Tensor k, v;
    /// Puts them before k and v [B, Hkv, Tk, D], which get H heads, and extends the mask.
    void put_before(const Tensor& q, Tensor& k, Tensor& v, AttentionMask& mask) const;
  };
  virtual Memory memory() const { return {}; }
  /// Scores [B, H, Tq, Tk] that replace scale·q·kᵀ; they are not scaled further. k has as many
  /// heads as q. From this stage on, tensors are float32 if the queries have a 16-bit dtype.
  /// Undefined: this part does not define the scores.
  virtual Tensor score(const Tensor& /*q*/, const Tensor& /*k*/) const { return {}; }
  /// The factor of the scores; nullptr: this part does not define it. A part of the stage `scale`
  /// takes precedence over parts of other stages.
  virtual const ScaleRule* scale() const { return nullptr; }
  /// Modified scores of the same shape, before the mask.
  virtual Tensor modify_scores(const Tensor& scores) const { return scores; }
  /// ∂modify_scores/∂scores, element by element, for the statistics of a head; undefined if it is 1
  /// everywhere.
  virtual Tensor score_slope(const Tensor& /*scores*/) const { return {}; }
  /// The mask, restricted further by the keys that this part hides. `keys` counts those of a cache
  /// as well; query i is at position i + keys − queries.
  virtual AttentionMask restrict(AttentionMask mask, int64_t /*queries*/, int64_t /*keys*/,
                                 Device /*device*/) const {
    return mask;
  }
  /// Weights that replace the softmax of the scores. A hidden key has the score −∞, and its weight
  /// must be 0. Undefined: this part does not define the weights.
  virtual Tensor normalize(const Tensor& /*scores*/) const { return {}; }
  /// For the statistics of a head: g with ∂w/∂s = diag(g) − g·gᵀ/Σg, from the weights w that
  /// normalize() returns. Undefined: g = w, as for softmax.
  virtual Tensor weight_slope(const Tensor& /*weights*/) const { return {}; }
  /// Factors ≥ 0, broadcast to the weights [B, H, Tq, Tk]. The weights are multiplied by them, then
  /// divided by their new sum. Query i is at position i + Tk − Tq. Undefined: this part does not
  /// change the weights.
  virtual Tensor weight_factors(const Tensor& /*weights*/) const { return {}; }
  /// A read-out that replaces the weighted mean of the values. nullptr: this part does not define
  /// the read.
  virtual const ReadOut* read_out() const { return nullptr; }
  /// Changes the outputs of the heads, [B, H, Tq, D] → the same shape, before they are
  /// concatenated.
  virtual Tensor combine(const Tensor& y) const { return y; }
  void fields(Fields&) override {}
};

/// An option of a part. Its value is given by name, as in "rotary=theta=500000:share=0.5", or bare,
/// as in "softcap=30". A bare value is assigned to the first option that accepts it.
struct PartOption {
  std::string name, help = {};
  /// The default; empty: a value is required, unless the option is `optional`
  std::string initial = {};
  std::vector<std::string> words = {};  ///< allowed values that are not numbers
  /// Whether numbers are allowed: those > `above` and ≥ `least`
  bool number = true;
  double above = 0, least = 0;
  bool whole = false;     ///< only whole numbers are allowed
  bool optional = false;  ///< the option may have no value
};

/// The values of all options of a part, checked against their ranges.
class PartValues {
 public:
  explicit PartValues(std::map<std::string, std::string> values = {}) : values_(std::move(values)) {}
  bool has(const std::string& option) const { return !text(option).empty(); }
  const std::string& text(const std::string& option) const { return values_.at(option); }
  double number(const std::string& option) const { return std::stod(text(option)); }
  /// The value of an option that allows whole numbers only; at most 10^15.
  int64_t whole(const std::string& option) const {
    return static_cast<int64_t>(std::min(number(option), 1e15));
  }

 private:
  std::map<std::string, std::string> values_;
};

/// A row of the table of parts.
struct AttentionPartRow {
  std::string name;
  Stage stage;
  std::string help = {};
  std::string formula = {};  ///< of what the part changes, as a proof card shows it
  std::string source = {};   ///< the paper
  int rank = rank::other;    ///< its order in a chain of parts
  /// A feature that only one part may have, in addition to the stages with one owner
  std::string owns = {};
  /// The name with options under which standard attention with this part alone has time and memory
  /// that grow linearly with the length. Empty: they grow faster
  std::string linear_as = {};
  std::vector<PartOption> options = {};
  /// Makes the part for an attention of these sizes.
  std::function<std::unique_ptr<AttentionPart>(const AttentionSizes&, const PartValues&)> make = {};
};

/// True if the part requires queries and keys to share their positions.
bool shares_positions(const AttentionPartRow& row, const AttentionPart& part);
/// Adds a row to the table, for names such as "name+laser". Errors: a name that is taken or
/// contains one of + = : , or a space, and an empty `make`.
void register_attention_part(AttentionPartRow row);
/// The table: the parts of the library, and the registered ones if `registered`.
std::vector<const AttentionPartRow*> attention_part_table(bool registered = true);

}  // namespace vitrine::nn
