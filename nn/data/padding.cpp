#include "nn/data/padding.h"

#include <algorithm>

#include "core/creation.h"

namespace vitrine::nn {

Padded pad_ids(std::span<const std::vector<int64_t>> rows, int64_t fill) {
  check(!rows.empty(), "pad_ids: there are no rows");
  const auto batch = std::ssize(rows);
  int64_t time = 0;
  for (const auto& row : rows) time = std::max(time, std::ssize(row));
  Padded padded{empty({batch, time}, DType::int64), empty({batch}, DType::int64)};
  for (int64_t b = 0; b < batch; ++b) {
    const auto& row = rows[static_cast<size_t>(b)];
    auto* const into = padded.values.data<int64_t>() + b * time;
    std::fill(std::copy(row.begin(), row.end(), into), into + time, fill);
    padded.lengths.data<int64_t>()[b] = std::ssize(row);
  }
  return padded;
}

Padded pad_frames(std::span<const Tensor> rows, double fill) {
  check(!rows.empty(), "pad_frames: there are no rows");
  check(rows[0].rank() >= 1, "pad_frames: row 0 is {}, wanted [T, ...]", describe(rows[0]));
  Shape shape = rows[0].shape();
  for (size_t b = 0; b < rows.size(); ++b) {
    const Tensor& row = rows[b];
    Shape same = row.shape();
    if (same.rank() == shape.rank()) same[0] = shape[0];
    check(same == shape && row.dtype() == DType::float32 && row.is_contiguous(),
          "pad_frames: row {} is {}, and row 0 is {}: wanted contiguous float32 rows that differ in their"
          " length alone",
          b, describe(row), describe(rows[0]));
    shape[0] = std::max(shape[0], row.size(0));
  }
  const auto batch = std::ssize(rows);
  shape.insert(0, batch);
  Padded padded{full(shape, fill), empty({batch}, DType::int64)};
  const int64_t stride = padded.values.numel() / batch;
  for (int64_t b = 0; b < batch; ++b) {
    const Tensor& row = rows[static_cast<size_t>(b)];
    std::copy_n(row.data<float>(), row.numel(), padded.values.data<float>() + b * stride);
    padded.lengths.data<int64_t>()[b] = row.size(0);
  }
  return padded;
}

}  // namespace vitrine::nn
