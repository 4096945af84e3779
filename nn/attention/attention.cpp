#include "nn/attention/attention.h"

#include <cmath>

#include "core/creation.h"
#include "core/record.h"
#include "nn/attention/scale.h"
#include "nn/init.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

using Setting = AttentionSetting;

double scale_for(const Setting& s, int64_t head_size, int64_t context) {
  if (s.scale == Setting::Scale::constant) return s.constant;
  const double n = std::max<double>(2, static_cast<double>(context) / 2), d = static_cast<double>(head_size);
  if (s.score == Setting::Score::cosine) return gradient_optimal_cosine_scale(n, d);
  const double root = 1 / std::sqrt(d);
  switch (s.scale) {
    case Setting::Scale::optimal: return gradient_optimal_scale(n) * root;
    case Setting::Scale::entropy: return entropy_factor(n) * root;
    default: return root;
  }
}

/// Repeats each key head for the query heads that read it.
Tensor spread_heads(const Tensor& x, int64_t heads) {
  const int64_t own = x.size(1);
  check(heads % own == 0, "attention: {} query heads cannot share {} key heads evenly", heads, own);
  return own == heads ? x : repeat(x, heads / own, 1);
}

/// −slope·|query position − key position|, [H, Tq, Tk].
Tensor alibi_bias(const Tensor& slopes, int64_t queries, int64_t keys, DType dtype) {
  const Tensor i =
      reshape(arange(0, static_cast<double>(queries)) + static_cast<double>(keys - queries), {queries, 1});
  const Tensor j = reshape(arange(0, static_cast<double>(keys)), {1, keys});
  return neg(cast(slopes, dtype) * cast(abs(i - j), dtype));
}

}  // namespace

Tensor AttentionMask::combined(int64_t queries, int64_t keys, Device device) const {
  if (!causal || queries == 1) return allowed;
  const Tensor visible = tril(ones({queries, keys}, DType::boolean, device), keys - queries);
  return allowed.defined() ? logical_and(visible, allowed) : visible;
}

Attention::Attention(Setting setting, int64_t heads, int64_t head_size, int64_t context)
    : setting_(setting), scale_(scale_for(setting, head_size, context)) {
  if (setting.qk_norm != Setting::QkNorm::none) {
    query_gain = constant({head_size}, 1);
    key_gain = constant({head_size}, 1);
  }
  if (setting.temperature) log_temperature = constant({head_size}, 0);
  if (setting.alibi) slopes_ = reshape(alibi_slopes(heads), {heads, 1, 1});
  check(!setting.rotary || head_size % 2 == 0, "rotary: the head size is {}, wanted an even one", head_size);
}

Tensor Attention::normalize(const Tensor& x, const Parameter& gain, const Parameter& bias) const {
  const Tensor b = bias.defined() ? bias.value() : Tensor();
  switch (setting_.qk_norm) {
    case Setting::QkNorm::layer: return layer_norm(x, gain, b);
    case Setting::QkNorm::rms: return rms_norm(x, gain);
    case Setting::QkNorm::none: break;
  }
  return setting_.score == Setting::Score::cosine ? l2_normalize(x) : x;
}

Tensor Attention::prepare_queries(const Tensor& q, int64_t first) const {
  Tensor y = normalize(q, query_gain, query_bias);
  if (setting_.rotary) y = rotate(y, first);
  if (setting_.temperature) y = y * (softplus(log_temperature) / std::log(2.0));
  return y;
}

Tensor Attention::prepare_keys(const Tensor& k, int64_t first) const {
  const Tensor y = normalize(k, key_gain, key_bias);
  return setting_.rotary ? rotate(y, first) : y;
}

Tensor Attention::forward(const Tensor& q0, const Tensor& k, const Tensor& v, const AttentionMask& mask,
                          int64_t first_query, AttentionTrace* trace) const {
  check(q0.rank() == 4 && k.rank() == 4 && v.shape() == k.shape() && q0.size(0) == k.size(0) &&
            q0.size(3) == k.size(3),
        "attention: q is {}, k {} and v {}, wanted [B, H, Tq, D] and twice [B, Hkv, Tk, D]", q0.shape(),
        k.shape(), v.shape());
  const Tensor q = prepare_queries(q0, first_query);
  const int64_t heads = q.size(1), queries = q.size(2), keys = k.size(2);
  const Tensor values = spread_heads(v, heads);
  Tensor scores = matmul(q * scale_, transpose(spread_heads(k, heads)));
  if (setting_.softcap > 0) scores = setting_.softcap * tanh(scores / setting_.softcap);
  if (setting_.alibi) scores = scores + alibi_bias(slopes_, queries, keys, scores.dtype());
  const Tensor visible = mask.combined(queries, keys, scores.device());
  if (visible.defined()) scores = where(visible, scores, -INFINITY);
  const Tensor weights = softmax(scores);
  if (trace) *trace = {q, k, v, weights, scale_};
  if (setting_.read == Setting::Read::mean) return matmul(weights, values);
  const Tensor read = laser_read(weights, scores, values);
  if (!mask.allowed.defined() && keys >= queries) return read;
  // A row of no visible key has weights 0, from which the logarithm would make −∞.
  const Tensor alive = greater(sum(detach(weights), {-1}, KeepAxes::yes), full({}, 0.5, weights.dtype()));
  return where(alive, read, 0.0);
}

void Attention::fields(Fields& f) {
  f("query_gain", query_gain);
  f("query_bias", query_bias);
  f("key_gain", key_gain);
  f("key_bias", key_bias);
  f("log_temperature", log_temperature);
}

Tensor rotate(const Tensor& x, int64_t first, double base) {
  const int64_t time = x.size(-2), size = x.size(-1), half = size / 2;
  check(size % 2 == 0, "rotate: the last axis of {} must have an even size", x.shape());
  std::vector<double> c(static_cast<size_t>(time * half)), s(c.size());
  for (int64_t t = 0; t < time; ++t)
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(first + t) *
                           std::pow(base, -2 * static_cast<double>(i) / static_cast<double>(size));
      c[static_cast<size_t>(t * half + i)] = std::cos(angle);
      s[static_cast<size_t>(t * half + i)] = std::sin(angle);
    }
  const Tensor cosine = tensor(c, {time, half}, x.dtype(), x.device()),
               sine = tensor(s, {time, half}, x.dtype(), x.device());
  const Tensor a = slice(x, -1, 0, half), b = slice(x, -1, half);
  return concat({a * cosine - b * sine, b * cosine + a * sine}, -1);
}

Tensor alibi_slopes(int64_t heads) {
  check(heads > 0, "alibi_slopes: wanted at least one head, got {}", heads);
  int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> slopes;
  for (int64_t i = 0; i < power; ++i)
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(i + 1) / static_cast<double>(power)));
  for (int64_t i = 0; static_cast<int64_t>(slopes.size()) < heads; i += 2)
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(i + 1) / static_cast<double>(2 * power)));
  return tensor(slopes, {heads}, DType::float64);
}

}  // namespace vitrine::nn
