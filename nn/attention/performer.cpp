#include "nn/attention/performer.h"

#include <cmath>
#include <vector>

#include "nn/init.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

/// Blocks of D orthogonal rows, each row of the length of a vector of N(0, I).
Tensor orthogonal_rows(int64_t features, int64_t size, Generator& generator) {
  std::vector<Tensor> blocks;
  for (int64_t at = 0; at < features; at += size)
    blocks.push_back(orthogonal({std::min(size, features - at), size}, 1, generator).master());
  const Tensor lengths =
      norm(randn({features, size}, DType::float32, Device::cpu, 0, 1, generator), 2, {-1}, KeepAxes::yes);
  return concat(blocks, 0) * lengths;
}

int64_t count_of(int64_t features, int64_t size) {
  const auto d = static_cast<double>(size);
  return features > 0 ? features : std::max(size, static_cast<int64_t>(std::ceil(d * std::log(d))));
}

/// q/D^¼ or k/D^¼.
Tensor scaled(const Tensor& x) { return x * std::pow(static_cast<double>(x.size(-1)), -0.25); }

}  // namespace

Performer::Performer(const AttentionName& parts_of_name, const AttentionSizes& sizes, int64_t features)
    : FeatureAttention({.name = "performer",
                        .of_dot_products = true,
                        .scale = 1 / std::sqrt(static_cast<double>(sizes.head_size))},
                       parts_of_name, sizes) {
  check(features >= 0, "performer: {} features are wanted, and the number must be at least 1", features);
  projection = zeros({count_of(features, sizes.head_size), sizes.head_size});
  redraw();
}

void Performer::redraw(Generator& generator) {
  const Tape::Pause pause;
  projection = vitrine::to(
      cast(orthogonal_rows(projection.size(0), projection.size(1), generator), projection.dtype()),
      projection.device());
}

/// A key's feature exp(w·k − |k|²/2) is at most e^(|w|²/2), which overflows for wide heads, and
/// about e^(±√D) for a typical key. Keys have the factor e^(−shift) and queries e^shift, so that
/// their product is as before. The shift is 0 where nothing can overflow, and never so large that
/// typical keys underflow.
Tensor Performer::shift() const {
  const Tensor half = sum(square(projection), {-1}) * 0.5;
  return minimum(maximum(half - 80, 0.0), 30.0);
}

FeatureAttention::Features Performer::features(const Tensor& q, const Tensor& k) const {
  const Features logs = log_features(q, k);
  const Tensor own = cast(shift(), q.dtype()), queries = logs.q + own;
  return {exp(queries - detach(max(queries, {-1}, KeepAxes::yes))), exp(logs.k - own)};
}

FeatureAttention::Features Performer::log_features(const Tensor& q, const Tensor& k) const {
  const Tensor w = transpose(cast(projection, q.dtype())), keys = scaled(k);
  return {matmul(scaled(q), w), matmul(keys, w) - sum(square(keys), {-1}, KeepAxes::yes) * 0.5};
}

void Performer::fields(Fields& f) {
  FeatureAttention::fields(f);
  f("projection", projection);
}

Performer Performer::clone() {
  return clone_into([this] { return Performer(name_, sizes_, projection.size(0)); });
}

}  // namespace vitrine::nn
