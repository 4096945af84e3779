#include "nn/attention/linear.h"

#include <cmath>
#include <limits>
#include <utility>

#include "core/creation.h"
#include "core/tape.h"
#include "nn/fixed_state.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/view.h"

namespace vitrine::nn {

FeatureAttention::FeatureAttention(Kind kind, AttentionName parts_of_name, const AttentionSizes& sizes)
    : name_(std::move(parts_of_name)), sizes_(sizes), kind_(std::move(kind)) {
  for (const PartChoice& choice : name_.parts) parts.push_back(choice.row->make(sizes_, choice.values));
  check_parts();
}

void FeatureAttention::check_parts() const {
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string& part = name_.parts[i].row->name;
    check(
        kind_.of_dot_products || !parts[i]->traits().positions,
        "{}: {} makes q·k depend on the distance of two positions, but φ(q)·φ(k) of rotated vectors is no "
        "function of it; wanted positions of the model, or the base performer, whose features are those of q·k",
        kind_.name, part);
    check(parts[i]->scale() == nullptr,
          "{}: {} sets the factor of the scores, and no scores are computed; wanted qk_norm", kind_.name,
          part);
  }
}

const ReadOut* FeatureAttention::read_out() const {
  for (const auto& part : parts)
    if (const ReadOut* const own = part->read_out()) return own;
  return nullptr;
}

namespace {

Tensor shown(const Tensor& x, const Tensor& seen) { return seen.defined() ? where(seen, x, 0.0) : x; }

struct Read {
  Tensor y;
  std::vector<Tensor> after;  ///< the state
};

Read read_by_mean(const Tensor& queries, const FeatureKeys& keys, const std::vector<Tensor>& state,
                  bool causal, MixerTrace* trace) {
  const Tensor before = state.empty() ? Tensor() : state[0];
  const MeanRead read = read_mean(queries, keys, before, causal);
  if (trace) {
    const Tape::Pause pause;
    trace->weights = mean_weights(queries, keys, before, trace->visible);
  }
  return {read.y, {read.sum}};
}

Read read_by_sums(const Tensor& queries, const FeatureKeys& keys, const std::vector<Tensor>& state,
                  const ReadOut& read_out, bool causal, MixerTrace* trace) {
  const FeatureSums before = state.empty() ? FeatureSums() : FeatureSums{state[0], state[1]};
  CausalRead read;
  if (causal) {
    read = causal_read(queries, keys, before, read_out);
  } else {
    const FeatureSums sums = sums_of(keys, read_out);
    read.after = state.empty() ? sums : joined(before, sums, read_out);
    read.y = read_sums(queries, read.after, read_out);
  }
  if (trace) {
    const Tape::Pause pause;
    trace->weights = sum_weights(queries, keys, before, trace->visible);
  }
  return {read.y, {read.after.log_mass, read.after.values}};
}

}  // namespace

Tensor FeatureAttention::forward(const Tensor& q0, const Tensor& k0, const Tensor& v0,
                                 const AttentionMask& mask, DecodingState* given, MixerTrace* trace) const {
  check(q0.rank() == 4 && k0.rank() == 4 && v0.rank() == 4 && q0.size(0) == k0.size(0) &&
            q0.size(3) == sizes_.head_size && k0.size(3) == sizes_.head_size && k0.size(2) == v0.size(2),
        "{}: q is {}, k {} and v {}, wanted [B, H, Tq, {}] and twice [B, Hkv, Tk, ..]", kind_.name,
        q0.shape(), k0.shape(), v0.shape(), sizes_.head_size);
  FixedState* const state = FixedState::of(given, kind_.name);
  const Tensor seen = shared_keys(mask, k0.size(2), kind_.name);
  const int64_t past = state ? state->length() : 0, queries = q0.size(2), first = past + k0.size(2) - queries;
  const DType type = accumulation_dtype(q0.dtype());
  Tensor q = cast(q0, type), k = shown(cast(k0, type), seen), v = shown(cast(v0, type), seen);
  for (size_t i = 0; i < parts.size(); ++i) {
    check(state == nullptr || parts[i]->traits().cacheable,
          "{}: keys or values of {} change when later ones come, so a state cannot keep them", kind_.name,
          name_.parts[i].row->name);
    q = parts[i]->prepare_queries(q, {first, mask.start});
    k = parts[i]->prepare_keys(k, {past, mask.start}), v = parts[i]->prepare_values(v, {past, mask.start});
  }
  if (trace) {
    *trace = {};
    trace->q = q, trace->k = k, trace->v = v, trace->scale = kind_.scale;
    trace->distribution = past == 0;  // the weights of earlier keys are not shown
    AttentionMask pairs{.causal = mask.causal};
    if (seen.defined()) pairs.allowed = transpose(seen);
    trace->visible = pairs.visible(queries, k.size(2), q.device());
    trace->weight_slope = full({q.size(0), q.size(1), queries, k.size(2)}, NAN, type, q.device());
  }
  const ReadOut* const own = read_out();
  const Features f = own ? log_features(q, k) : features(q, k);
  const FeatureKeys keys{define::repeat_key_heads(shown(f.k, seen), q.size(1)),
                         define::repeat_key_heads(v, q.size(1)), seen};
  const std::vector<Tensor> before = state ? state->states : std::vector<Tensor>();
  Read read = own ? read_by_sums(f.q, keys, before, *own, mask.causal, trace)
                  : read_by_mean(f.q, keys, before, mask.causal, trace);
  if (state) state->advance(k.size(2), std::move(read.after));
  for (const auto& part : parts) read.y = part->combine(read.y);
  return cast(read.y, q0.dtype());
}

bool FeatureAttention::needs_positions() const {
  for (const auto& part : parts)
    if (part->traits().positions) return true;
  return false;
}

std::unique_ptr<DecodingState> FeatureAttention::make_state(int64_t, int64_t) const {
  return std::make_unique<FixedState>(kind_.name);
}

std::string FeatureAttention::explain(bool weights_wanted, const AttentionMask& mask) const {
  const char* const how = !mask.causal ? "all queries read one sum over the keys for each feature"
                          : read_out()
                              ? "queries read the keys of their block, and earlier blocks by their sums"
                              : "the op linear_scan keeps running sums over the keys";
  return fmt::format("{}: linear in the length: {}{}", kind_.name, how,
                     weights_wanted ? "; the weights are computed for display alone" : "");
}

void FeatureAttention::fields(Fields& f) {
  for (size_t i = 0; i < parts.size(); ++i) f(name_.parts[i].row->name, *parts[i]);
}

LinearAttention::LinearAttention(const AttentionName& parts_of_name, const AttentionSizes& sizes)
    : FeatureAttention({.name = "linear", .scale = std::numeric_limits<double>::quiet_NaN()}, parts_of_name,
                       sizes) {}

FeatureAttention::Features LinearAttention::features(const Tensor& q, const Tensor& k) const {
  return {elu_plus_one(q), elu_plus_one(k)};
}

/// log(elu(x) + 1) is x below 0, and log(1 + x) above.
FeatureAttention::Features LinearAttention::log_features(const Tensor& q, const Tensor& k) const {
  const auto log_feature = [](const Tensor& x) {
    const Tensor below = less(x, zeros({}, x.dtype(), x.device()));
    return where(below, x, log1p(where(logical_not(below), x, 0.0)));
  };
  return {log_feature(q), log_feature(k)};
}

LinearAttention LinearAttention::clone() {
  return clone_into([this] { return LinearAttention(name_, sizes_); });
}

}  // namespace vitrine::nn
