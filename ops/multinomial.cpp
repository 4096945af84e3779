#include "ops/multinomial.h"

#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "core/record.h"
#include "ops/formulas_multinomial.h"
#include "ops/kernels.h"

namespace vitrine {
namespace {

/// Builds the sums of neighbours, the sums of those, and so on. A draw then reads 32 numbers of
/// each level instead of all weights.
void draw_with_replacement(Tensor& drawn, const Tensor& weights, Draw draw) {
  std::vector<Tensor> sums{weights};
  while (sums.back().size(-1) > 1) {
    Shape shape = sums.back().shape();
    shape.back() = (shape.back() + SumTree::kWidth - 1) / SumTree::kWidth;
    Tensor next = empty(shape, DType::float64, weights.device());
    VITRINE_RUN(sum_neighbours, next, sums.back());
    sums.push_back(next);
  }
  VITRINE_RUN(draw_indices, drawn, sums, draw);
}

/// Of several exponential clocks with rates w, the first to ring is i with probability wᵢ/Σw, and
/// the others then behave as if just started. Efraimidis and Spirakis 2006.
void draw_without_replacement(Tensor& drawn, const Tensor& weights, Draw draw) {
  Tensor times = empty_like(weights);
  VITRINE_RUN(first_times, times, weights, draw);
  VITRINE_RUN(argsort, drawn, times, /*descending=*/false);
}

}  // namespace

Tensor multinomial(const Tensor& weights, int64_t count, bool replacement, Generator& generator) {
  check(weights.rank() >= 1, "multinomial: weights is a scalar, wanted [..., V]");
  check(count >= 0, "multinomial: count is {}, wanted at least 0", count);
  Shape shape = weights.shape();
  check(weights.numel() == 0 || replacement || count <= shape.back(),
        "multinomial: weights has the shape {}, too few for {} draws without replacement", shape, count);
  shape.back() = count;
  Tensor drawn = empty(shape, DType::int64, weights.device());
  if (weights.numel() > 0) {
    Tensor rows = copy_as(weights, DType::float64);
    VITRINE_RUN(check_weights, rows, count, replacement);
    const Draw draw =
        generator.draw(4 * (replacement ? drawn.numel() : rows.numel()));  // four words a number
    (replacement ? draw_with_replacement : draw_without_replacement)(drawn, rows, draw);
  }
  check(weights.numel() > 0 || drawn.numel() == 0,
        "multinomial: weights has the shape {}: there is nothing to draw from", weights.shape());
  return record_cut("multinomial", weights, drawn);
}

void fail_weight(int64_t row, int64_t index, double weight) {
  fail("multinomial: weight {} of row {} is {}, wanted 0 to {:.0e}", index, row, weight, kLargestWeight);
}

void fail_few_weights(int64_t row, int64_t positive, int64_t count, bool replacement) {
  fail("multinomial: row {} has {} weights above 0, too few for {} draws {} replacement", row, positive,
       count, replacement ? "with" : "without");
}

void cpu::check_weights(Tensor& weights, int64_t count, bool replacement) {
  const int64_t n = weights.size(-1);
  for (int64_t row = 0; row < weights.numel() / n; ++row) {
    const double* const w = weights.data<double>() + row * n;
    int64_t positive = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (!(w[i] >= 0 && w[i] <= kLargestWeight)) fail_weight(row, i, w[i]);
      positive += w[i] > 0;
    }
    if (positive < needed_weights(count, replacement)) fail_few_weights(row, positive, count, replacement);
  }
}

void cpu::sum_neighbours(Tensor& sums, const Tensor& weights) {
  const int64_t n = weights.size(-1), groups = sums.size(-1);
  parallel_for(0, sums.numel(), grain_for(SumTree::kWidth), [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) {
      const int64_t begin = i % groups * SumTree::kWidth, size = std::min(SumTree::kWidth, n - begin);
      double part[SumTree::kWidth] = {};
      std::copy_n(weights.data<double>() + i / groups * n + begin, size, part);
      for (int64_t step = SumTree::kWidth / 2; step > 0; step /= 2)  // in the order of a warp
        for (int64_t lane = 0; lane < step; ++lane) part[lane] += part[lane + step];
      sums.data<double>()[i] = part[0];
    }
  });
}

void cpu::draw_indices(Tensor& drawn, const std::vector<Tensor>& sums, Draw draw) {
  const SumTree tree(sums);
  const int64_t count = drawn.size(-1);
  parallel_for(0, drawn.numel(), grain_for(SumTree::kWidth * tree.levels), [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) {
      const auto words = philox(draw.seed, draw.offset + static_cast<uint64_t>(i));
      drawn.data<int64_t>()[i] = tree.find(i / count, to_fine_uniform(words));
    }
  });
}

void cpu::first_times(Tensor& times, const Tensor& weights, Draw draw) {
  parallel_for(0, times.numel(), grain_for(64), [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) {
      const auto words = philox(draw.seed, draw.offset + static_cast<uint64_t>(i));
      times.data<double>()[i] = first_time(1 - to_fine_uniform(words), weights.data<double>()[i]);
    }
  });
}

}  // namespace vitrine
