#include "ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "core/flops.h"
#include "ops/attention_merge.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/kernels.h"
#include "ops/matmul.h"
#include "ops/operands.h"
#include "ops/plain.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace vitrine {
namespace {

using Options = AttentionOptions;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void check_operands(const Tensor& q, const Tensor& k, const Tensor& v) {
  check_floating("attention", "q", q);
  const bool fits = q.rank() == 4 && k.rank() == 4 && v.rank() == 4 && q.size(0) == k.size(0) &&
                    q.size(3) == k.size(3) && v.size(0) == k.size(0) && v.size(1) == k.size(1) &&
                    v.size(2) == k.size(2);
  check(fits, "attention: q is {}, k {} and v {}, wanted [B, H, Tq, D], [B, Hkv, Tk, D] and [B, Hkv, Tk, Dv]",
        q.shape(), k.shape(), v.shape());
  check(q.dtype() == k.dtype() && q.dtype() == v.dtype(),
        "attention: q is {}, k {} and v {}, wanted one dtype", name(q.dtype()), name(k.dtype()),
        name(v.dtype()));
  check(k.size(1) > 0 && q.size(1) % k.size(1) == 0,
        "attention: {} query heads cannot share {} key heads evenly", q.size(1), k.size(1));
}

void check_options(const Shape& scores, const Options& o) {
  check(std::isfinite(o.scale) && std::isfinite(o.softcap) && o.softcap >= 0,
        "attention: scale is {} and softcap {}, wanted finite numbers, softcap ≥ 0", o.scale, o.softcap);
  check(o.left >= 0 && o.right >= 0 && o.first >= 0,
        "attention: the window is [{}, {}] and the first {} keys, wanted numbers of keys ≥ 0", o.left,
        o.right, o.first);
  check(!o.slopes.defined() || o.slopes.shape() == Shape{scores[1]},
        "attention: slopes are {}, wanted one for each of {} heads",
        o.slopes.defined() ? o.slopes.shape() : Shape{}, scores[1]);
  check(!o.sink.defined() || o.sink.shape() == Shape{scores[1]},
        "attention: the sink is {}, wanted one score for each of {} heads",
        o.sink.defined() ? o.sink.shape() : Shape{}, scores[1]);
  check(!o.sink.defined() || o.read == AttentionRead::mean,
        "attention: a sink is given, and LASER reads; wanted a mean, as the value 0 of a sink has no "
        "exponential of its own");
  check(!o.allowed.defined() || o.allowed.dtype() == DType::boolean, "attention: allowed is {}, wanted bool",
        o.allowed.defined() ? name(o.allowed.dtype()) : "");
  check(!o.bias.defined() || is_floating(o.bias.dtype()),
        "attention: the bias is {}, wanted a floating dtype; `allowed` hides keys",
        o.bias.defined() ? name(o.bias.dtype()) : "");
  for (auto [what, x] : {std::pair{"attention, allowed", &o.allowed}, {"attention, bias", &o.bias}})
    if (x->defined() && broadcast(what, x->shape(), scores) != scores)
      fail("{} is {}, which does not broadcast to {}", what, x->shape(), scores);
}

/// With D = 0 every q·k is an empty sum, 0, which no finite factor changes; 1/√0 would give NaN.
double scale_of(const Options& o, const Tensor& q) {
  return o.scale != 0 ? o.scale : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(q.size(3), 1)));
}

/// j − position of i, int64 [Tq, Tk].
Tensor distances(int64_t queries, int64_t keys, Device device) {
  const auto positions = [device](int64_t first, int64_t last) {
    return arange(static_cast<double>(first), static_cast<double>(last), 1, DType::int64, device);
  };
  return positions(0, keys) - reshape(positions(keys - queries, keys), {queries, 1});
}

/// The keys that causality, window and mask leave visible; undefined if all are visible.
Tensor visible(const Options& o, int64_t queries, int64_t keys, Device device) {
  Tensor seen = o.allowed;
  const auto restrict_to = [&seen](const Tensor& more) {
    seen = seen.defined() ? logical_and(seen, more) : more;
  };
  const Tensor distance = distances(queries, keys, device);
  const auto number = [device](int64_t x) { return full({}, static_cast<double>(x), DType::int64, device); };
  if (o.causal) restrict_to(less_equal(distance, number(0)));
  if (o.left < Options::kUnlimited) {
    const Tensor near = greater_equal(distance, number(-o.left));
    const Tensor key = arange(0, static_cast<double>(keys), 1, DType::int64, device);
    restrict_to(o.first > 0 ? logical_or(near, less(key, number(std::min(o.first, keys)))) : near);
  }
  if (o.right < Options::kUnlimited) restrict_to(less_equal(distance, number(o.right)));
  return seen;
}

}  // namespace

void detail::check_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o) {
  check_operands(q, k, v);
  check_options({q.size(0), q.size(1), q.size(2), k.size(2)}, o);
}

Tensor define::repeat_key_heads(const Tensor& x, int64_t heads) {
  const int64_t own = x.size(1);
  check(own > 0 && heads % own == 0, "attention: {} query heads cannot share {} key heads evenly", heads,
        own);
  return own == heads ? x : repeat(x, heads / own, 1);
}

Tensor define::alibi_bias(const Tensor& slopes, int64_t queries, int64_t keys, DType dtype) {
  const Tensor distance = abs(distances(queries, keys, slopes.device()));
  return neg(cast(reshape(detach(slopes), {-1, 1, 1}), dtype) * cast(distance, dtype));
}

namespace {

/// The operands in the wide dtype with one key head for each query head, and the scores.
struct DefinedScores {
  Tensor scores, v;
};

DefinedScores scores_of(const Tensor& q0, const Tensor& k0, const Tensor& v0, const Options& o) {
  const DType type = accumulation_dtype(q0.dtype());
  const Tensor q = cast(q0, type), k = define::repeat_key_heads(cast(k0, type), q.size(1)),
               v = define::repeat_key_heads(cast(v0, type), q.size(1));
  Tensor scores = matmul(q, transpose(k)) * scale_of(o, q);
  if (o.softcap > 0) scores = o.softcap * tanh(scores / o.softcap);
  if (o.bias.defined()) scores = scores + cast(o.bias, type);
  if (o.slopes.defined()) scores = scores + define::alibi_bias(o.slopes, q.size(2), k.size(2), type);
  const Tensor seen = visible(o, q.size(2), k.size(2), q.device());
  if (seen.defined()) scores = where(seen, scores, -kInfinity);
  return {scores, v};
}

Tensor read_laser(const Tensor& scores, const Tensor& v) {
  const Tensor lse = vitrine::log_sum_exp(scores);
  const Tensor read =
      vitrine::log_sum_exp(unsqueeze(scores, -1) + unsqueeze(v, -3), {-2}) - unsqueeze(lse, -1);
  // NaN is kept.
  const Tensor alive = unsqueeze(not_equal(lse, full({}, -kInfinity, lse.dtype(), lse.device())), -1);
  return where(alive, read, 0.0);
}

}  // namespace

Tensor define::attention(const Tensor& q, const Tensor& k, const Tensor& v0, const AttentionOptions& o) {
  const auto [scores, v] = scores_of(q, k, v0, o);
  const bool has_keys = k.size(2) > 0;  // without keys every read is 0
  if (o.read == AttentionRead::laser && has_keys) return cast(read_laser(scores, v), q.dtype());
  if (!o.sink.defined() || !has_keys) return cast(matmul(vitrine::softmax(scores), v), q.dtype());
  const Shape one{scores.size(0), scores.size(1), scores.size(2), 1};
  const Tensor sink = expand(cast(reshape(o.sink, {-1, 1, 1}), scores.dtype()), one);
  const Tensor weights = vitrine::softmax(concat({scores, sink}, -1));
  return cast(matmul(slice(weights, -1, 0, scores.size(-1)), v), q.dtype());
}

AttentionResult define::attention_with_log_sum_exp(const Tensor& q, const Tensor& k, const Tensor& v,
                                                   const AttentionOptions& o) {
  const Tensor scores = scores_of(q, k, v, o).scores;
  return {define::attention(q, k, v, o),
          k.size(2) > 0 ? vitrine::log_sum_exp(scores) : sum(scores, {-1}) - kInfinity};
}

namespace {

/// The dtype that the kernel reads and writes. The CPU's kernel has no float16, because no
/// instruction multiplies it.
DType kernel_dtype(const Tensor& x) {
  return x.device().is_cpu() && x.dtype() == DType::float16 ? DType::float32 : x.dtype();
}

/// x in that dtype, with each head's rows in a layout that a matrix product can read.
Tensor readable(const Tensor& x) {
  if (x.dtype() != kernel_dtype(x)) return copy_as(x, kernel_dtype(x));
  return has_matrix_rows(x) ? x : packed(x);
}

/// An uninitialized [B, H, T, D] in the memory layout [B, T, H, D], which the projections that
/// follow require.
Tensor empty_heads(const Shape& s, DType dtype, Device device) {
  return permute(empty({s[0], s[2], s[1], s[3]}, dtype, device), {0, 2, 1, 3});
}

Tensor expanded(const Tensor& x, const Shape& scores, DType dtype) {
  return x.defined() ? expand(x.dtype() == dtype ? x : copy_as(x, dtype), scores) : x;
}

Tensor rounded(const Tensor& x, DType dtype) { return x.dtype() == dtype ? x : copy_as(x, dtype); }

/// Converts the dtype of a tensor from empty_heads, and keeps its layout.
Tensor rounded_heads(const Tensor& x, DType dtype) {
  return x.dtype() == dtype ? x : permute(copy_as(permute(x, {0, 2, 1, 3}), dtype), {0, 2, 1, 3});
}

/// The pairs of a query and a key of one head that causal and window leave. A tensor `allowed` does
/// not count: kernels compute most of its hidden pairs.
double pairs_of(const AttentionForm& form, int64_t queries, int64_t keys) {
  double pairs = 0;
  for (int64_t i = 0; i < queries; ++i) {
    const int64_t position = i + keys - queries;
    const int64_t last = std::min(position + (form.causal ? 0 : form.right), keys - 1);
    pairs += static_cast<double>(std::max<int64_t>(last - std::max<int64_t>(position - form.left, 0) + 1, 0));
  }
  return pairs;
}

/// Runs the kernel and records it: y, and log Σ e^score if `with_log_sum_exp`.
std::vector<Tensor> run_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Options& options,
                                  bool with_log_sum_exp) {
  AttentionForm form = options;
  form.scale = scale_of(options, q);
  form.left = std::min(form.left, Options::kUnlimited),
  form.right = std::min(form.right, Options::kUnlimited);
  const DType type = accumulation_dtype(q.dtype());
  const Shape scores{q.size(0), q.size(1), q.size(2), k.size(2)};
  const Tensor bias = expanded(options.bias, scores, type),
               allowed = expanded(options.allowed, scores, DType::boolean);
  const Tensor slopes = options.slopes.defined() ? packed(rounded(detach(options.slopes), type)) : Tensor();
  const bool laser = form.read == AttentionRead::laser;
  std::vector<Tensor> inputs = {q, k, v};
  const bool biased = has_gradient(options.bias);
  if (biased) inputs.push_back(options.bias);
  Tensor y = empty_heads({q.size(0), q.size(1), q.size(2), v.size(3)}, kernel_dtype(q), q.device());
  Tensor lse = empty({q.size(0), q.size(1), q.size(2)}, type, q.device());
  Tensor kept;
  if (laser || (y.dtype() != type &&
                std::any_of(inputs.begin(), inputs.end(), [](const Tensor& x) { return has_gradient(x); })))
    kept = empty_heads(y.shape(), laser ? type : y.dtype(), q.device());
  // Each pair has a score q·k and adds weight·v.
  const double of_scores = 2.0 * static_cast<double>(q.size(0) * q.size(1) * q.size(3)) *
                           pairs_of(form, q.size(2), k.size(2)),
               of_values = 2.0 * static_cast<double>(q.size(0) * q.size(1) * v.size(3)) *
                           pairs_of(form, q.size(2), k.size(2));
  count_flops("attention", of_scores + of_values);
  VITRINE_RUN(attention, y, lse, kept, readable(q), readable(k), readable(v), bias, slopes, allowed, form);
  const auto backward = [q = Saved(q), k = Saved(k), v = Saved(v), y = Saved(laser ? Tensor() : y),
                         kept = Saved(kept), lse = Saved(lse), bias = Saved(bias), slopes = Saved(slopes),
                         allowed = Saved(allowed), form, of_scores, of_values, scores,
                         shape_of_bias = options.bias.defined() ? options.bias.shape() : Shape{},
                         dtype_of_bias = options.bias.defined() ? options.bias.dtype() : DType::float32,
                         biased, with_log_sum_exp](const Backward& b) -> Grads {
    const auto like = [&](const Tensor& x) { return empty_heads(x.shape(), kernel_dtype(x), x.device()); };
    Tensor dq = like(q), dk = like(k), dv = like(v), dbias;
    if (biased && b.needs(3)) dbias = empty(scores, lse->dtype(), q->device());
    const Tensor dy = b.dy(0).defined() ? readable(b.dy(0))
                                        : zeros({q->size(0), q->size(1), q->size(2), v->size(3)},
                                                kernel_dtype(q), q->device());
    const Tensor dlse = with_log_sum_exp && b.dy(1).defined() ? packed(b.dy(1)) : Tensor();
    // The scores again, dq, dk; the gradient of the weights, dv.
    count_flops("attention_backward", 3 * of_scores + 2 * of_values);
    VITRINE_RUN(attention_backward, dq, dk, dv, dbias, dy, dlse, readable(q), readable(k), readable(v),
                y.get(), kept.get(), lse.get(), bias.get(), slopes.get(), allowed.get(), form);
    Grads gradients = {rounded_heads(dq, q->dtype()), rounded_heads(dk, q->dtype()),
                       rounded_heads(dv, q->dtype())};
    if (dbias.defined())
      gradients.push_back(rounded(sum_to(dbias, shape_of_bias), dtype_of_bias));
    else if (biased || with_log_sum_exp)
      gradients.push_back(Tensor());
    return gradients;
  };
  y = rounded_heads(y, q.dtype());
  if (with_log_sum_exp)
    return record_all("attention", {q, k, v, biased ? options.bias : Tensor()}, {y, lse}, backward);
  return {record("attention", inputs, y, backward)};
}

}  // namespace

AttentionResult attention_with_log_sum_exp(const Tensor& q, const Tensor& k, const Tensor& v,
                                           const AttentionOptions& options) {
  detail::check_attention(q, k, v, options);
  check(!options.sink.defined(), "attention_with_log_sum_exp: a sink is given, wanted a sum over keys");
  if (const auto result = through_definition(
          {q, k, v, options.bias}, [&] { return define::attention_with_log_sum_exp(q, k, v, options); }))
    return *result;
  if (detail::shows_first_keys(options, k.size(2)))
    return detail::attention_with_first_keys(q, k, v, options);
  const auto ys = run_attention(q, k, v, options, true);
  return {ys[0], ys[1]};
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  detail::check_attention(q, k, v, options);
  if (options.sink.defined()) return detail::attention_with_sink(q, k, v, options);
  if (const auto y =
          through_definition({q, k, v, options.bias}, [&] { return define::attention(q, k, v, options); }))
    return *y;
  if (detail::shows_first_keys(options, k.size(2)))
    return detail::attention_with_first_keys(q, k, v, options).y;
  return run_attention(q, k, v, options, false)[0];
}

namespace {

/// One row of weights: softmax(qᵢ·kᵀ·scale) over the keys that query i sees.
std::vector<double> weights_of(int64_t i, const Tensor& q, const Tensor& k, double scale, bool causal) {
  const int64_t depth = q.size(1), keys = k.size(0);
  const int64_t seen = causal ? keys - q.size(0) + i + 1 : keys;
  std::vector<double> weights(static_cast<size_t>(keys), 0);
  double largest = -kInfinity, total = 0;
  for (int64_t j = 0; j < seen; ++j) {
    const double *const a = q.data<double>() + i * depth, *const b = k.data<double>() + j * depth;
    weights[static_cast<size_t>(j)] = scale * std::inner_product(a, a + depth, b, 0.0);
    largest = std::max(largest, weights[static_cast<size_t>(j)]);
  }
  for (int64_t j = 0; j < seen; ++j) {
    double& weight = weights[static_cast<size_t>(j)];
    total += weight = std::exp(weight - largest);
  }
  for (double& weight : weights) weight /= seen > 0 ? total : 1;
  return weights;
}

}  // namespace

void plain::attention(Tensor& y, const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                      bool causal) {
  const int64_t channels = v.size(1);
  for (int64_t i = 0; i < q.size(0); ++i) {
    const auto weights = weights_of(i, q, k, scale, causal);
    double* const to = y.data<double>() + i * channels;
    std::fill_n(to, channels, 0);
    for (int64_t j = 0; j < k.size(0); ++j)
      for (int64_t c = 0; c < channels; ++c)
        to[c] += weights[static_cast<size_t>(j)] * v.data<double>()[j * channels + c];
  }
}

/// With the weights a and da = dy·vᵀ of a query:
///   ds = scale·a·(da − Σ a·da), dq = ds·k, dk = dsᵀ·q, dv = aᵀ·dy.
void plain::attention_backward(Tensor& dq, Tensor& dk, Tensor& dv, const Tensor& dy, const Tensor& q,
                               const Tensor& k, const Tensor& v, double scale, bool causal) {
  const int64_t keys = k.size(0), depth = q.size(1), channels = v.size(1);
  for (Tensor* dx : {&dq, &dk, &dv}) std::fill_n(dx->data<double>(), dx->numel(), 0);
  for (int64_t i = 0; i < q.size(0); ++i) {
    const auto weights = weights_of(i, q, k, scale, causal);
    const double* const up = dy.data<double>() + i * channels;
    std::vector<double> slopes(static_cast<size_t>(keys));  // da
    double average = 0;
    for (int64_t j = 0; j < keys; ++j) {
      double& da = slopes[static_cast<size_t>(j)];
      da = std::inner_product(up, up + channels, v.data<double>() + j * channels, 0.0);
      average += weights[static_cast<size_t>(j)] * da;
    }
    for (int64_t j = 0; j < keys; ++j) {
      const double a = weights[static_cast<size_t>(j)];
      const double ds = scale * a * (slopes[static_cast<size_t>(j)] - average);
      for (int64_t c = 0; c < channels; ++c) dv.data<double>()[j * channels + c] += a * up[c];
      for (int64_t c = 0; c < depth; ++c) {
        dq.data<double>()[i * depth + c] += ds * k.data<double>()[j * depth + c];
        dk.data<double>()[j * depth + c] += ds * q.data<double>()[i * depth + c];
      }
    }
  }
}

}  // namespace vitrine
