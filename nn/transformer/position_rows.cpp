#include "nn/transformer/position_rows.h"

#include "core/creation.h"
#include "nn/attention/positions.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/view.h"

namespace vitrine::nn {

Positions resolved(Positions positions, const MixerOptions& mixer) {
  if (positions != Positions::automatic) return positions;
  return brings_positions(mixer) ? Positions::none : Positions::learned;
}

Tensor rows_at(const Tensor& table, int64_t past, int64_t time, const Tensor& padding) {
  if (!padding.defined()) return slice(table, 0, past, past + time);
  const Tensor columns =
      arange(static_cast<double>(past), static_cast<double>(past + time), 1, DType::int64, table.device());
  return embedding(table, maximum(columns - unsqueeze(padding, -1), 0));
}

Tensor sinusoidal_rows(int64_t width, int64_t past, int64_t time, const Tensor& padding, const Tensor& like) {
  const auto rows = [&](int64_t first, int64_t count) {
    return sinusoidal_positions(count, width, 10000, first, like.dtype(), like.device());
  };
  return padding.defined() ? rows_at(rows(0, past + time), past, time, padding) : rows(past, time);
}

}  // namespace vitrine::nn
