#include "nn/attention/attention.h"

#include <cmath>

#include "core/creation.h"
#include "core/record.h"
#include "core/tape.h"
#include "nn/attention/scale_policy.h"
#include "nn/init.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

using Setting = AttentionSetting;

/// The setting, if its numbers are in their ranges.
Setting checked(Setting s) {
  if (s.scale == Setting::Scale::constant)
    check(s.constant > 0 && std::isfinite(s.constant),
          "attention: the constant scale is {}, wanted more than 0", s.constant);
  if (s.keys == Setting::Keys::given)
    check(s.n >= 2 && std::isfinite(s.n), "attention: the scale is for n = {} keys, wanted 2 or more", s.n);
  check(s.softcap >= 0 && std::isfinite(s.softcap), "attention: softcap is {}, wanted at least 0", s.softcap);
  return s;
}

std::unique_ptr<AttentionPart> make_part(const std::string& name, const AttentionSizes& sizes) {
  for (const auto& part : detail::registered_parts())
    if (part.name == name) return part.make(sizes);
  fail("attention: the part {} is not registered", name);
}

}  // namespace

Tensor AttentionPart::prepare_queries(const Tensor& q, int64_t) const { return q; }
Tensor AttentionPart::prepare_keys(const Tensor& k, int64_t) const { return k; }
Tensor AttentionPart::prepare_values(const Tensor& v, int64_t) const { return v; }

Attention::Attention(Setting setting, int64_t heads, int64_t head_size, int64_t context)
    : setting_(checked(std::move(setting))),
      sizes_{heads, head_size, context},
      scale_(score_scale(setting_, head_size, common_keys(setting_, context))) {
  if (setting_.qk_norm != Setting::QkNorm::none) {
    query_gain = constant({head_size}, 1);
    key_gain = constant({head_size}, 1);
  }
  if (setting_.temperature) log_temperature = constant({head_size}, 0);
  check(!setting_.rotary || head_size % 2 == 0, "rotary: the head size is {}, wanted an even one", head_size);
  for (const std::string& name : setting_.extra) {
    extra.push_back(make_part(name, sizes_));
    check(setting_.read == AttentionRead::mean || extra.back()->traits().distribution,
          "attention: laser takes the logarithm of a weighted mean of e^v, so it wants weights that are ≥ 0 "
          "and sum to 1; those of {} are not",
          name);
  }
}

Tensor Attention::normalize(const Tensor& x, const Parameter& gain) const {
  switch (setting_.qk_norm) {
    case Setting::QkNorm::layer: return layer_norm(x, gain, {}, setting_.qk_norm_eps);
    case Setting::QkNorm::rms: return rms_norm(x, gain, setting_.qk_norm_eps);
    case Setting::QkNorm::none: break;
  }
  return setting_.score == Setting::Score::cosine ? l2_normalize(x) : x;
}

Tensor Attention::prepare_queries(const Tensor& q, int64_t first) const {
  Tensor y = normalize(q, query_gain);
  if (setting_.rotary) y = rotate(y, first);
  if (setting_.temperature) y = y * (softplus(log_temperature) / std::log(2.0));
  for (const auto& part : extra) y = part->prepare_queries(y, first);
  return y;
}

Tensor Attention::prepare_keys(const Tensor& k, int64_t first) const {
  Tensor y = normalize(k, key_gain);
  if (setting_.rotary) y = rotate(y, first);
  for (const auto& part : extra) y = part->prepare_keys(y, first);
  return y;
}

Tensor Attention::prepare_values(const Tensor& v, int64_t first) const {
  Tensor y = v;
  for (const auto& part : extra) y = part->prepare_values(y, first);
  return y;
}

void Attention::check_cacheable() const {
  for (size_t i = 0; i < extra.size(); ++i)
    check(
        extra[i]->traits().cacheable,
        "attention: keys or values of {} change when later ones come, so a cache cannot keep them; call forward "
        "with the whole sequence and without a cache",
        setting_.extra[i]);
}

Attention::Choice Attention::choose(bool weights_wanted, const AttentionMask& mask) const {
  if (weights_wanted)
    return {Path::generic, "generic: the weights are asked for, so they are kept as a tensor [B, H, Tq, Tk]"};
  for (size_t i = 0; i < extra.size(); ++i)
    if (!extra[i]->traits().tiled)
      return {Path::generic,
              fmt::format("generic: {} changes scores or weights in a way that the fused op does not know",
                          setting_.extra[i])};
  const Tape* const tape = Tape::recording();
  if (tape != nullptr && tape->order() > 1)
    return {
        Path::definition,
        fmt::format("definition: a tape of order {} records simpler ops, which keep the weights, for what it "
                    "tracks",
                    tape->order())};
  if (has_gradient(mask.bias))
    return {Path::definition,
            "definition: the mask's bias has a gradient, which the fused op does not compute"};
  return {Path::fused, "fused: every part is computed tile by tile, and the weights are never kept"};
}

Tensor Attention::forward(const Tensor& q0, const Tensor& k, const Tensor& v, const AttentionMask& mask,
                          int64_t first_query, AttentionTrace* trace) const {
  check(
      q0.rank() == 4 && k.rank() == 4 && v.rank() == 4 && q0.size(0) == k.size(0) && q0.size(3) == k.size(3),
      "attention: q is {}, k {} and v {}, wanted [B, H, Tq, D] and twice [B, Hkv, Tk, D]", q0.shape(),
      k.shape(), v.shape());
  const DType type = accumulation_dtype(q0.dtype());
  const Tensor q = prepare_queries(q0, first_query),
               rows = row_scale(mask, q.size(2), k.size(2), type, q.device());
  AttentionOptions o;
  o.scale = scale_;
  o.causal = mask.causal, o.left = mask.left, o.right = mask.right;
  o.softcap = setting_.softcap;
  o.read = setting_.read;
  o.bias = mask.bias, o.allowed = mask.allowed, o.slopes = slopes(q.device());
  vitrine::detail::check_attention(q, k, v, o);
  if (path(trace != nullptr, mask) == Path::generic) return generic(q, k, v, mask, rows, trace);
  return attention(rows.defined() ? cast(cast(q, type) * rows, q.dtype()) : q, k, v, o);
}

std::string Attention::explain(bool weights_wanted, const AttentionMask& mask) const {
  return fmt::format("{}; {}", choose(weights_wanted, mask).reason,
                     describe_scale(setting_, sizes_.head_size, sizes_.context));
}

/// What each query is multiplied by on top of scale_.
Tensor Attention::row_scale(const AttentionMask& mask, int64_t queries, int64_t keys, DType dtype,
                            Device device) const {
  if (setting_.keys != Setting::Keys::visible) return {};
  const Tensor scales = score_scales(setting_, sizes_.head_size, keys, device);
  return cast(index_select(scales, 0, mask.visible_keys(queries, keys, device)) / scale_, dtype);
}

Tensor Attention::slopes(Device device) const {
  return setting_.alibi ? alibi_slopes(sizes_.heads, device) : Tensor();
}

/// What the one part makes that overrides this stage; undefined where none does.
template <class F>
Tensor Attention::stage_of_parts(const char* what, F&& stage) const {
  Tensor made;
  const std::string* by = nullptr;
  for (size_t i = 0; i < extra.size(); ++i) {
    const Tensor own = stage(*extra[i]);
    if (!own.defined()) continue;
    check(by == nullptr, "attention: {} and {} both {}", by ? *by : "", setting_.extra[i], what);
    made = own, by = &setting_.extra[i];
  }
  return made;
}

Tensor Attention::generic(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask,
                          const Tensor& row_scale, AttentionTrace* trace) const {
  const int64_t heads = q.size(1), queries = q.size(2), keys = k.size(2);
  // As in the fused op nothing between the inputs and the output is rounded to low precision.
  const DType type = accumulation_dtype(q.dtype());
  const Tensor values = define::repeat_key_heads(cast(v, type), heads),
               all_keys = define::repeat_key_heads(cast(k, type), heads);
  Tensor scores = stage_of_parts("have scores of their own", [&](const AttentionPart& part) {
    return part.score(cast(q, type), all_keys);
  });
  const bool own_scores = scores.defined();
  if (own_scores) {
    check(setting_.score == Setting::Score::dot && setting_.scale == Setting::Scale::standard,
          "attention: a part has scores of its own, which know neither cosine nor a scale of q·k");
  } else {
    Tensor scaled = cast(q, type) * scale_;
    if (row_scale.defined()) scaled = scaled * row_scale;
    scores = matmul(scaled, transpose(all_keys));
  }
  Tensor cap_slope;
  if (setting_.softcap > 0) {
    const Tensor capped = tanh(scores / setting_.softcap);
    scores = setting_.softcap * capped;
    const Tape::Pause pause;
    if (trace) cap_slope = 1 - square(capped);
  }
  if (mask.bias.defined()) scores = scores + cast(mask.bias, type);
  if (setting_.alibi) scores = scores + define::alibi_bias(slopes(q.device()), queries, keys, type);
  for (const auto& part : extra) scores = part->modify_scores(scores);
  const Tensor visible = mask.visible(queries, keys, scores.device());
  if (visible.defined()) scores = where(visible, scores, -INFINITY);
  const Tensor others = stage_of_parts("take the place of softmax",
                                       [&](const AttentionPart& part) { return part.normalize(scores); });
  const Tensor weights = others.defined() ? others : softmax(scores);
  if (trace) {
    *trace = {q, k, v, weights, own_scores ? 1 : scale_, row_scale, visible, true, cap_slope};
    for (const auto& part : extra) trace->distribution = trace->distribution && part->traits().distribution;
  }
  const Tensor read = stage_of_parts("read the values",
                                     [&](const AttentionPart& part) { return part.read(weights, values); });
  if (read.defined()) {
    check(setting_.read == AttentionRead::mean, "attention: laser and another part both read the values");
    return cast(read, q.dtype());
  }
  if (setting_.read == AttentionRead::mean) return cast(matmul(weights, values), q.dtype());
  Tensor y = laser_read(weights, others.defined() ? Tensor() : scores, values, visible);
  if (mask.allowed.defined() || mask.bias.defined() || !extra.empty() || keys < queries) {
    // A row of no visible key has weights 0, from which the logarithm would make −∞.
    const Tensor total = sum(detach(weights), {-1}, KeepAxes::yes);
    const Tensor dead = less(total, full({}, 0.5, type, total.device()));
    y = where(logical_not(dead), y, 0.0);  // NaN stays
  }
  return cast(y, q.dtype());
}

Attention Attention::clone() {
  return clone_into([this] { return Attention(setting_, sizes_.heads, sizes_.head_size, sizes_.context); });
}

void Attention::fields(Fields& f) {
  f("query_gain", query_gain);
  f("key_gain", key_gain);
  f("log_temperature", log_temperature);
  for (size_t i = 0; i < extra.size(); ++i) f(setting_.extra[i], *extra[i]);
}

}  // namespace vitrine::nn
