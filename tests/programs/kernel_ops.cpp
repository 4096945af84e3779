// Rows of ops that have kernels of their own: products, softmax, norms, losses, attention.
#include "core/creation.h"
#include "ops/additive_scores.h"
#include "ops/attention.h"
#include "ops/dropout.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/linear_scan.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/power_norm.h"
#include "ops/recurrent.h"
#include "ops/reduce.h"
#include "ops/rotary.h"
#include "ops/selective_scan.h"
#include "ops/softmax.h"
#include "ops/wkv.h"
#include "tests/programs/ops.h"

namespace vitrine::programs {
namespace {

using MaybeFit = std::optional<Fit>;

MaybeFit last_axis(Choice&, const Shape& x) {
  if (x.rank() == 0) return std::nullopt;
  return Fit{{x}};
}

/// x and `vectors` vectors of its last axis.
template <int vectors>
MaybeFit with_vectors(Choice&, const Shape& x) {
  if (x.rank() == 0) return std::nullopt;
  Fit fit{{x}};
  for (int i = 0; i < vectors; ++i) fit.operands.push_back({x.back()});
  return fit;
}

MaybeFit product(Choice& choice, const Shape& x) {
  if (x.rank() == 0) return std::nullopt;
  const int64_t m = choice.between(1, 4);
  Shape y = x.rank() == 1 ? Shape{x.back(), m} : Shape{};
  if (x.rank() > 1) {
    y = choice.chance(0.5) ? Shape{x.back(), m} : x;
    if (y.rank() == x.rank()) y[y.rank() - 2] = x.back(), y.back() = m;
    if (y.rank() > 2 && choice.chance(0.3)) y[0] = 1;
  }
  if (choice.chance(0.1)) y = {x.back()};
  return Fit{{x, y}};
}

/// The sums of a cell with so many gates, and its recurrent weight.
template <int gates>
MaybeFit cell(Choice& choice, const Shape&) {
  const int64_t channels = choice.between(1, 3);
  return Fit{{{choice.between(1, 3), choice.between(1, 3), gates * channels}, {gates * channels, channels}}};
}

/// q, k, v, the logarithms of decays, and what erases.
MaybeFit scanned(Choice& choice, const Shape&) {
  const Shape q = {choice.between(1, 2), choice.between(1, 2), choice.between(1, 4), choice.between(1, 3)};
  Shape v = q, decays = q;
  v.back() = choice.between(1, 3);
  if (choice.chance(0.5)) decays.erase(3);
  return Fit{{q, q, v, decays, q, q}};
}

/// u, delta, a, b and c.
MaybeFit state_space(Choice& choice, const Shape&) {
  const int64_t channels = choice.between(1, 3), states = choice.between(1, 3);
  const Shape u = {choice.between(1, 2), choice.between(1, 4), channels}, b = {u[0], u[1], states};
  return Fit{{u, u, {channels, states}, b, b}};
}

MaybeFit averaged(Choice& choice, const Shape&) {
  const int64_t channels = choice.between(1, 3);
  const Shape k = {choice.between(1, 2), choice.between(1, 4), channels};
  return Fit{{k, k, {channels}, {channels}}};
}

template <bool bias>
MaybeFit layer(Choice& choice, const Shape& x) {
  if (x.rank() == 0) return std::nullopt;
  const int64_t out = choice.between(1, 4);
  Fit fit{{x, {out, x.back()}}};
  if (bias) fit.operands.push_back({out});
  return fit;
}

MaybeFit batched_pair(Choice& choice, const Shape&) {
  const int64_t b = choice.between(1, 2), h = choice.between(1, 2), d = choice.between(1, 3);
  return Fit{{{b, choice.between(1, 3), h, d}, {b, choice.between(1, 3), h, d}}};
}

MaybeFit with_residual(Choice&, const Shape& x) {
  if (x.rank() == 0) return std::nullopt;
  return Fit{{x, x, {x.back()}}};
}

MaybeFit with_residual_and_bias(Choice&, const Shape& x) {
  if (x.rank() == 0) return std::nullopt;
  return Fit{{x, x, {x.back()}, {x.back()}}};
}

/// Rows of logits, and a target for each.
MaybeFit rows_and_targets(Choice& choice, const Shape& x) {
  const Shape rows = x.rank() > 1 ? x : Shape{choice.between(1, 4), choice.between(2, 5)};
  Params p;
  for (int64_t i = 0; i < numel(rows) / rows.back(); ++i) p.ints.push_back(choice.below(rows.back()));
  return Fit{{rows}, p};
}

Tensor targets_of(const Tensor& x, const Params& p) {
  Shape shape = x.shape();
  shape.erase(shape.rank() - 1);
  return index_tensor(p.ints, shape);
}

MaybeFit turned(Choice& choice, const Shape& x) {
  if (x.rank() == 0 || x.back() < 2) return std::nullopt;
  Shape angles = x;
  angles.back() = choice.between(1, x.back() / 2);
  if (angles.rank() > 1 && choice.chance(0.5)) angles[0] = 1;
  return Fit{{x, angles}, {.ints = {choice.below(2)}}};
}

/// causal, left, right, laser, whether there is a softcap, the first keys.
MaybeFit heads(Choice& choice, const Shape&) {
  const bool alike = choice.chance(0.4);
  const int64_t batch = choice.between(1, 2), groups = choice.between(1, 2);
  const int64_t key_heads = choice.between(1, 2);
  const int64_t queries = choice.between(1, 4), width = choice.between(1, 3);
  const Shape q = {batch, alike ? key_heads : key_heads * groups, queries, width};
  Shape k = {batch, key_heads, alike ? queries : choice.between(1, 4), width}, v = k;
  if (!alike) v.back() = choice.between(1, 3);
  const bool window = choice.chance(0.3);
  return Fit{{q, k, v},
             {.ints = {choice.below(2), window ? choice.below(3) : AttentionForm::kUnlimited,
                       window ? choice.below(3) : AttentionForm::kUnlimited, choice.below(2),
                       choice.chance(0.2) ? 1 : 0, 0}}};
}

/// The same in a window that shows the first keys.
MaybeFit heads_and_first_keys(Choice& choice, const Shape& x) {
  Fit fit = *heads(choice, x);
  fit.params.ints[1] = choice.below(3);
  fit.params.ints[5] = choice.between(1, 2);
  return fit;
}

/// The same with a bias for each score, for all heads or for each.
MaybeFit heads_and_bias(Choice& choice, const Shape& x) {
  Fit fit = *heads(choice, x);
  const Shape &q = fit.operands[0], &k = fit.operands[1];
  fit.operands.push_back({choice.chance(0.5) ? 1 : q[1], q[2], k[2]});
  return fit;
}

/// The same with the score of a sink for each head, and without LASER.
MaybeFit heads_and_sink(Choice& choice, const Shape& x) {
  Fit fit = *heads(choice, x);
  fit.operands.push_back({fit.operands[0][1]});
  fit.params.ints[3] = 0;
  return fit;
}

/// Queries and keys of one width, and weights of that width.
MaybeFit additive_operands(Choice& choice, const Shape& x) {
  if (x.rank() < 2 || numel(x) == 0) return std::nullopt;
  Shape k = x, w = x;
  k[x.rank() - 2] = choice.between(1, 4);
  w.erase(x.rank() - 2);
  return Fit{{x, k, w}};
}

template <Tensor AttentionOptions::*kFourth = nullptr>
Tensor attend(const Values& x, const Params& p) {
  AttentionOptions options;
  if constexpr (kFourth != nullptr) options.*kFourth = x[3];
  options.causal = p.ints[0] != 0;
  options.left = p.ints[1];
  options.right = p.ints[2];
  options.first = p.ints[5];
  options.read = p.ints[3] != 0 ? AttentionRead::laser : AttentionRead::mean;
  if (p.ints[4] != 0) options.softcap = 1.5;
  return attention(x[0], x[1], x[2], options);
}

/// The rows of the first `summands` operands' sum differ enough from a constant that rounding does
/// not decide the norm of them.
template <int summands, bool centered>
bool spread_rows(const Values& x, const Params&) {
  const Tensor rows = summands == 1 ? x[0] : x[0] + x[1];
  return min(centered ? var(rows, {-1}) : mean(square(rows), {-1})).item() > 0.01;
}

/// The channels differ enough from 0 that rounding does not decide their norm.
bool spread_channels(const Values& x, const Params&) {
  const Tensor rows = reshape(x[0], {x[0].numel() / x[0].size(-1), x[0].size(-1)});
  return min(mean(square(rows), {0})).item() > 0.01;
}

Tensor parts(const AddNorm& a) { return concat({a.sum(), a.y()}, 0); }

const Domain kScore{-4, 4};

}  // namespace

std::vector<Op> kernel_ops() {
  using V = const Values&;
  using P = const Params&;
  return {
      {"matmul", "matmul($0, $1)", product, [](V x, P) { return matmul(x[0], x[1]); }},
      {"linear", "linear($0, $1, $2)", layer<true>, [](V x, P) { return linear(x[0], x[1], x[2]); }},
      {"linear", "linear($0, $1)", layer<false>, [](V x, P) { return linear(x[0], x[1]); }},
      {"linear_gelu_tanh", "linear_gelu_tanh($0, $1, $2)", layer<true>,
       [](V x, P) { return linear_gelu_tanh(x[0], x[1], x[2]); }},
      {"einsum", "einsum(\"bihd,bjhd->hbij\", {$0, $1})", batched_pair,
       [](V x, P) { return einsum("bihd,bjhd->hbij", x); }},
      {"einsum", "einsum(\"bihd,bjhd->bd\", {$0, $1})", batched_pair,
       [](V x, P) { return einsum("bihd,bjhd->bd", x); }},
      {"lstm", "lstm($0, $1).h", cell<4>, [](V x, P) { return lstm(x[0], x[1]).h; }, {{-3, 3}}},
      {"gru",
       "gru($0, $1, {}, {}, {.reverse = true})",
       cell<3>,
       [](V x, P) { return gru(x[0], x[1], {}, {}, {.reverse = true}); },
       {{-3, 3}}},
      {"linear_scan",
       "linear_scan($0, $1, $2, {.log_decay = $3}).o",
       scanned,
       [](V x, P) { return linear_scan(x[0], x[1], x[2], {.log_decay = x[3]}).o; },
       {{-3, 3}, {-3, 3}, {-3, 3}, {-3, 0}}},
      {"linear_scan",
       "linear_scan($0, $1, $2, {.log_decay = $3, .erase_to = $4, .erase_from = $5}).state",
       scanned,
       [](V x, P) {
         const LinearScanOptions o{.log_decay = x[3], .erase_to = x[4], .erase_from = x[5]};
         return linear_scan(x[0], x[1], x[2], o).state;
       },
       {{-3, 3}, {-3, 3}, {-3, 3}, {-3, 0}, {-1, 1}}},
      {"selective_scan",
       "selective_scan($0, $1, $2, $3, $4).y",
       state_space,
       [](V x, P) { return selective_scan(x[0], x[1], x[2], x[3], x[4]).y; },
       {{-3, 3}, {0, 1}, {-3, 0}, {-3, 3}}},
      {"wkv",
       "wkv($0, $1, $2, $3).y",
       averaged,
       [](V x, P) { return wkv(x[0], x[1], x[2], x[3]).y; },
       {{-3, 3}, {-3, 3}, {-3, 0}, {-3, 3}}},
      {"softmax", "softmax($0, %0)", one_axis, [](V x, P p) { return softmax(x[0], p.ints[0]); }},
      {"log_softmax", "log_softmax($0, %0)", one_axis, [](V x, P p) { return log_softmax(x[0], p.ints[0]); }},
      {"layer_norm",
       "layer_norm($0, $1, $2)",
       with_vectors<2>,
       [](V x, P) { return layer_norm(x[0], x[1], x[2]); },
       {{}},
       spread_rows<1, true>},
      {"layer_norm",
       "layer_norm($0)",
       last_axis,
       [](V x, P) { return layer_norm(x[0]); },
       {{}},
       spread_rows<1, true>},
      {"rms_norm",
       "rms_norm($0, $1)",
       with_vectors<1>,
       [](V x, P) { return rms_norm(x[0], x[1]); },
       {{}},
       spread_rows<1, false>},
      {"power_norm", "power_norm($0, $1, $2, 0.7, 0)", with_vectors<2>,
       [](V x, P) {
         const DType wide = accumulation_dtype(x[0].dtype());
         const Tensor psi2 = full({x[0].size(-1)}, 0.7, wide), nu = zeros({x[0].size(-1)}, wide);
         return power_norm(x[0], x[1], x[2], psi2, nu);
       }},
      {"power_norm_v",
       "power_norm_v($0, $1, $2)",
       with_vectors<2>,
       [](V x, P) { return power_norm_v(x[0], x[1], x[2]); },
       {{}},
       spread_channels},
      {"add_layer_norm",
       "concat({sum, y} of add_layer_norm($0, $1, $2, $3))",
       with_residual_and_bias,
       [](V x, P) { return parts(add_layer_norm(x[0], x[1], x[2], x[3])); },
       {{}},
       spread_rows<2, true>},
      {"add_rms_norm",
       "concat({sum, y} of add_rms_norm($0, $1, $2))",
       with_residual,
       [](V x, P) { return parts(add_rms_norm(x[0], x[1], x[2])); },
       {{}},
       spread_rows<2, false>},
      {"l2_normalize",
       "l2_normalize($0)",
       last_axis,
       [](V x, P) { return l2_normalize(x[0]); },
       {{-10, 10, {0}}}},
      {"cross_entropy", "cross_entropy($0, {%0*})", rows_and_targets,
       [](V x, P p) { return cross_entropy(x[0], targets_of(x[0], p)); }},
      {"nll_loss", "nll_loss($0, {%0*}, {.reduction = Reduction::none})", rows_and_targets,
       [](V x, P p) { return nll_loss(x[0], targets_of(x[0], p), {.reduction = Reduction::none}); }},
      {"mse_loss", "mse_loss($0, $1)", two_alike, [](V x, P) { return mse_loss(x[0], x[1]); }},
      {"binary_cross_entropy",
       "binary_cross_entropy($0, $1, Reduction::none)",
       two_alike,
       [](V x, P) { return binary_cross_entropy(x[0], x[1], Reduction::none); },
       {{-10, 10, {0}}, {0.1, 0.9}}},
      {"dropout",
       "dropout($0, 0.3)",
       same,
       [](V x, P) { return dropout(x[0], 0.3); },
       {{}},
       nullptr,
       0,
       1,
       false,
       true},
      {"rotary", "rotary($0, cos($1), sin($1), %0 != 0)", turned,
       [](V x, P p) { return rotary(x[0], cos(x[1]), sin(x[1]), p.ints[0] != 0); }},
      {"rotary", "rotary($0, cos(angle), sin(angle), %0 != 0) with angle = full_like($1, 0.7)", turned,
       [](V x, P p) {
         const Tensor angle = full_like(x[1], 0.7);
         return rotary(x[0], cos(angle), sin(angle), p.ints[0] != 0);
       }},
      {"attention",
       "attention($0, $1, $2, {.causal = %0, .left = %1, .right = %2, .softcap = 1.5 * %4, .read = AttentionRead(%3)})",
       heads,
       attend<>,
       {kScore},
       nullptr,
       0,
       3},
      {"attention",
       "attention($0, $1, $2, {.causal = %0, .left = %1, .right = %2, .softcap = 1.5 * %4, .read = AttentionRead(%3), "
       ".bias = $3})",
       heads_and_bias,
       attend<&AttentionOptions::bias>,
       {kScore}},
      {"attention_with_first_keys",
       "attention($0, $1, $2, {.causal = %0, .left = %1, .right = %2, .first = %5, .softcap = 1.5 * %4, .read = "
       "AttentionRead(%3)})",
       heads_and_first_keys,
       attend<>,
       {kScore}},
      {"attention_with_sink",
       "attention($0, $1, $2, {.causal = %0, .left = %1, .right = %2, .softcap = 1.5 * %4, .sink = $3})",
       heads_and_sink,
       attend<&AttentionOptions::sink>,
       {kScore}},
      {"additive_scores",
       "additive_scores($0, $1, $2)",
       additive_operands,
       [](V x, P) { return additive_scores(x[0], x[1], x[2]); },
       {kScore}},
  };
}

}  // namespace vitrine::programs
