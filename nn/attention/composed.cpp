#include "nn/attention/composed.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <mutex>
#include <tuple>
#include <type_traits>

#include "core/creation.h"
#include "core/record.h"
#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace vitrine::nn {

ComposedAttention::ComposedAttention(AttentionName name, int64_t heads, int64_t head_size, int64_t context)
    : name_(std::move(name)), sizes_{heads, head_size, context} {
  rule_ = {.of = [root = 1 / std::sqrt(static_cast<double>(head_size))](double) { return root; },
           .name = "1/√D",
           .constant = true};
  for (const PartChoice& choice : name_.parts) parts.push_back(choice.row->make(sizes_, choice.values));
  check_parts();
  // The rule of a part of Stage::scale replaces other rules
  for (const bool owners : {false, true})
    for (size_t i = 0; i < parts.size(); ++i)
      if (const ScaleRule* const rule = parts[i]->scale())
        if ((name_.parts[i].row->stage == Stage::scale) == owners) rule_ = *rule;
  AttentionOptions options;
  folded_ = 0;
  while (folded_ < parts.size() && parts[folded_]->fold(options, {})) ++folded_;
  scale_ = scale_of(common_keys());
}

/// Checks that the parts fit together. parse_attention has already refused two owners of a stage.
void ComposedAttention::check_parts() const {
  for (size_t i = 0; i < parts.size(); ++i)
    for (size_t j = 0; j < parts.size(); ++j) {
      const std::string &x = name_of(i), &y = name_of(j);
      check(!parts[i]->traits().needs_distribution || parts[j]->traits().distribution,
            "attention: {} is defined for weights that are ≥ 0 and sum to 1; those of {} are not", x, y);
      const bool scales = parts[j]->scale() != nullptr;
      check(i == j || name_.parts[i].row->stage != Stage::score || !scales,
            "attention: {} has scores of its own, which have no scale, so {} has no effect on it", x, y);
      check(
          name_.parts[i].row->stage != Stage::extend || name_.parts[j].row->stage == Stage::mask ||
              !shares_positions(*name_.parts[j].row, *parts[j]),
          "attention: the keys that {} adds have no position, and {} depends on the distance of query and key",
          x, y);
      if (i == j || !scales || parts[i]->scale() == nullptr) continue;
      // One of the two defines a scale together with its scores; the other is a part of
      // Stage::scale.
      check(!parts[j]->scale()->of_dot_products,
            "attention: {} scales q·k by a multiple of 1/√D, which the scores of {} do not have", y, x);
      check(name_.parts[j].row->stage != Stage::scale ||
                parts[i]->scale()->keys == ScaleRule::Keys::half_context,
            "attention: {} is the whole scale, so a number of keys has no effect on {}", y, x);
    }
}

void ComposedAttention::check_cacheable() const {
  for (size_t i = 0; i < parts.size(); ++i)
    check(
        parts[i]->traits().cacheable,
        "attention: keys or values of {} change when later ones come, so a cache cannot keep them; call forward "
        "with the whole sequence and without a cache",
        name_of(i));
}

ComposedAttention::Choice ComposedAttention::choose(bool weights_wanted) const {
  if (weights_wanted)
    return {Path::generic, "generic: the weights are asked for, so they are kept as a tensor [B, H, Tq, Tk]"};
  if (!folds())
    return {Path::generic,
            fmt::format("generic: {} changes scores or weights in a way that the fused op does not know",
                        name_of(folded_))};
  const Tape* const tape = Tape::recording();
  if (tape != nullptr && tape->order() > 1)
    return {Path::definition,
            fmt::format("definition: a tape of order {} records simpler ops, which store the weights",
                        tape->order())};
  return {Path::fused, "fused: every part is computed tile by tile, and the weights are never kept"};
}

std::unique_ptr<DecodingState> Attention::make_state(int64_t, int64_t capacity) const {
  return std::make_unique<KeyValueCache>(capacity);
}

namespace {

KeyValueCache* cache_of(DecodingState* state) {
  auto* const cache = dynamic_cast<KeyValueCache*>(state);
  check(state == nullptr || cache != nullptr,
        "attention: the state is not one of attention; wanted what make_state of the same mixer gave");
  return cache;
}

}  // namespace

Tensor ComposedAttention::forward(const Tensor& q0, const Tensor& k0, const Tensor& v0,
                                  const AttentionMask& given, DecodingState* state, MixerTrace* trace) const {
  check(q0.rank() == 4 && k0.rank() == 4 && v0.rank() == 4 && q0.size(0) == k0.size(0) &&
            q0.size(3) == k0.size(3),
        "attention: q is {}, k {} and v {}, wanted [B, H, Tq, D] and twice [B, Hkv, Tk, D]", q0.shape(),
        k0.shape(), v0.shape());
  if (state) check_cacheable();
  KeyValueCache* const cache = cache_of(state);
  const int64_t first_key = cache ? cache->length() : 0, keys = first_key + k0.size(2),
                first_query = keys - q0.size(2);
  Tensor q = q0, k = k0, v = v0;
  AttentionMask mask = given;
  for (const auto& part : parts) {
    mask = part->restrict(mask, q0.size(2), keys, q0.device());
    q = part->prepare_queries(q, {first_query, given.start});
    k = part->prepare_keys(k, {first_key, given.start});
    v = part->prepare_values(v, {first_key, given.start});
  }
  if (cache) std::tie(k, v) = cache->append(k, v);
  for (const auto& part : parts) part->memory().put_before(q, k, v, mask);
  const DType type = accumulation_dtype(q.dtype());
  const Tensor rows = row_scale(mask, q.size(2), k.size(2), type, q.device());
  AttentionOptions options;
  options.scale = scale_;
  options.causal = mask.causal, options.left = mask.left, options.right = mask.right;
  options.first = mask.first;
  options.bias = mask.bias, options.allowed = mask.allowed;
  for (const auto& part : parts) part->fold(options, {q.size(2), k.size(2), q.device()});
  vitrine::detail::check_attention(q, k, v, options);
  Tensor y = path(trace != nullptr) == Path::generic
                 ? generic(q, k, v, mask, rows, trace)
                 : attention(rows.defined() ? cast(cast(q, type) * rows, q.dtype()) : q, k, v, options);
  for (const auto& part : parts) y = part->combine(y);
  return y;
}

/// Fewer than 2 keys count as 2: a single key has weight 1 at any scale, and log 1 = 0 does not
/// determine a scale.
double ComposedAttention::scale_of(double n) const { return rule_.of(rule_.constant ? n : std::max(n, 2.0)); }

double ComposedAttention::common_keys() const {
  return rule_.keys == ScaleRule::Keys::given ? rule_.n
                                              : std::max<double>(2, static_cast<double>(sizes_.context) / 2);
}

std::string ComposedAttention::explain(bool weights_wanted, const AttentionMask&) const {
  const std::string reason = choose(weights_wanted).reason;
  if (rule_.constant)
    return fmt::format("{}; the scores are multiplied by {:.6g}{} {}", reason, scale_,
                       rule_.name.starts_with("a ") ? "," : ":", rule_.name);
  if (rule_.keys == ScaleRule::Keys::visible)
    return fmt::format(
        "{}; the scores are multiplied by what is {} for the n keys that their query sees: {:.6g} at n = {}",
        reason, rule_.name, scale_, common_keys());
  return fmt::format("{}; the scores are multiplied by {:.6g}: {} for n = {} keys", reason, scale_,
                     rule_.name, common_keys());
}

/// The scales for n = 0, 1, … up to at least `last`, in float64; read-only.
Tensor ComposedAttention::scale_table(int64_t last, Device device) const {
  static std::mutex mutex;
  static auto* const tables =
      new std::map<std::tuple<std::string, int64_t, DeviceKind, int8_t>, std::vector<Tensor>>;
  const std::lock_guard lock(mutex);
  // Shorter tables are kept: other streams may still read them.
  std::vector<Tensor>& of_lengths = (*tables)[{rule_.key, sizes_.head_size, device.kind, device.index}];
  if (of_lengths.empty() || of_lengths.back().numel() <= last) {
    std::vector<double> scales(std::bit_ceil(static_cast<uint64_t>(last) + 1));
    for (size_t n = 0; n < scales.size(); ++n) scales[n] = scale_of(static_cast<double>(n));
    of_lengths.push_back(tensor(scales, {static_cast<int64_t>(scales.size())}, DType::float64, device));
  }
  return of_lengths.back();
}

/// The factor of each query in addition to scale_.
Tensor ComposedAttention::row_scale(const AttentionMask& mask, int64_t queries, int64_t keys, DType dtype,
                                    Device device) const {
  if (rule_.keys != ScaleRule::Keys::visible) return {};
  const Tensor scales = scale_table(keys, device);
  return cast(index_select(scales, 0, mask.visible_keys(queries, keys, device)) / scale_, dtype);
}

namespace {

bool is_given(const Tensor& made) { return made.defined(); }
bool is_given(const ReadOut* made) { return made != nullptr; }

}  // namespace

/// The result of the one part that overrides this stage; empty if there is none.
template <class F>
auto ComposedAttention::owned_stage(const char* what, F&& stage) const {
  std::invoke_result_t<F, const AttentionPart&> made{};
  size_t by = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto own = stage(*parts[i]);
    if (!is_given(own)) continue;
    check(!is_given(made), "attention: {} and {} both {}", name_of(by), name_of(i), what);
    made = own, by = i;
  }
  return made;
}

Tensor ComposedAttention::scaled_dot_products(const Tensor& q, const Tensor& k,
                                              const Tensor& row_scale) const {
  Tensor scaled = q * scale_;
  if (row_scale.defined()) scaled = scaled * row_scale;
  return matmul(scaled, transpose(k));
}

Tensor ComposedAttention::modify(Tensor scores, const AttentionMask& mask, MixerTrace* trace) const {
  bool biased = !mask.bias.defined();
  const auto add_bias = [&](int rank) {
    if (!biased && rank > rank::mask_bias) scores = scores + cast(mask.bias, scores.dtype()), biased = true;
  };
  for (size_t i = 0; i < parts.size(); ++i) {
    const AttentionPartRow& row = *name_.parts[i].row;
    if (row.stage >= Stage::modify) add_bias(row.stage == Stage::modify ? row.rank : rank::other);
    if (trace) {
      const Tape::Pause pause;
      if (const Tensor slope = parts[i]->score_slope(scores); slope.defined())
        trace->score_slope = trace->score_slope.defined() ? trace->score_slope * slope : slope;
    }
    scores = parts[i]->modify_scores(scores);
  }
  add_bias(rank::other);
  return scores;
}

Weighting ComposedAttention::normalize(const Tensor& scores) const {
  const Tensor own = owned_stage("take the place of softmax",
                                 [&](const AttentionPart& part) { return part.normalize(scores); });
  return own.defined() ? Weighting{.weights = own} : Weighting{.weights = softmax(scores), .scores = scores};
}

Tensor ComposedAttention::weight_slope(const Tensor& weights) const {
  const Tape::Pause pause;
  return owned_stage("have a Jacobian of their own",
                     [&](const AttentionPart& part) { return part.weight_slope(weights); });
}

const ReadOut* ComposedAttention::read_out() const {
  return owned_stage("read the values", [](const AttentionPart& part) { return part.read_out(); });
}

Tensor ComposedAttention::generic(const Tensor& q, const Tensor& k, const Tensor& v,
                                  const AttentionMask& mask, const Tensor& row_scale,
                                  MixerTrace* trace) const {
  const int64_t heads = q.size(1), queries = q.size(2), keys = k.size(2);
  // As in the fused op, no intermediate result is rounded to 16 bits.
  const DType type = accumulation_dtype(q.dtype());
  const Tensor values = define::repeat_key_heads(cast(v, type), heads),
               all_keys = define::repeat_key_heads(cast(k, type), heads);
  Tensor scores = owned_stage("have scores of their own",
                              [&](const AttentionPart& part) { return part.score(cast(q, type), all_keys); });
  const bool own_scores = scores.defined();
  if (!own_scores) scores = scaled_dot_products(cast(q, type), all_keys, row_scale);
  if (trace) {
    *trace = {};
    trace->q = q, trace->k = k, trace->v = v;
    trace->scale = own_scores ? 1 : scale_, trace->row_scale = row_scale;
  }
  scores = modify(scores, mask, trace);
  const Tensor visible = mask.visible(queries, keys, scores.device());
  if (visible.defined()) scores = where(visible, scores, -INFINITY);
  Weighting weighting = normalize(scores);
  const Tensor& weights = weighting.weights;
  if (trace) trace->weight_slope = weight_slope(weights);
  Tensor factors;
  for (const auto& part : parts) {
    const Tensor own = part->weight_factors(weights);
    if (own.defined()) factors = factors.defined() ? factors * own : own;
  }
  if (factors.defined()) {
    weighting = reweighted(weighting, factors);
    // Softmax of s + log(factor) is a softmax. Other weights times factors have another Jacobian.
    if (trace && trace->weight_slope.defined()) trace->weight_slope = full_like(weights, NAN);
  }
  if (trace) {
    trace->weights = weights, trace->visible = visible;
    for (const auto& part : parts) trace->distribution = trace->distribution && part->traits().distribution;
  }
  weighting.visible = visible;
  weighting.empty_rows = mask.allowed.defined() || mask.bias.defined() || !folds() || keys < queries;
  const ReadOut* const owned = read_out();
  return cast(owned ? owned->read(weighting, values) : matmul(weights, values), q.dtype());
}

bool ComposedAttention::needs_positions() const {
  for (size_t i = 0; i < parts.size(); ++i)
    if (shares_positions(*name_.parts[i].row, *parts[i])) return true;
  return false;
}

ComposedAttention ComposedAttention::clone() {
  return clone_into(
      [this] { return ComposedAttention(name_, sizes_.heads, sizes_.head_size, sizes_.context); });
}

void ComposedAttention::fields(Fields& f) {
  for (size_t i = 0; i < parts.size(); ++i) f(name_of(i), *parts[i]);
}

}  // namespace vitrine::nn
