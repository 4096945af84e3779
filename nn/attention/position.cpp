#include "nn/attention/position.h"

#include <cmath>
#include <vector>

#include "core/creation.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

/// [T, pairs]: position·base^(−2i/(2·pairs)).
std::vector<double> angles(const std::vector<double>& positions, int64_t pairs, double base) {
  std::vector<double> result;
  for (double p : positions)
    for (int64_t i = 0; i < pairs; ++i)
      result.push_back(p * std::pow(base, -static_cast<double>(i) / static_cast<double>(pairs)));
  return result;
}

Tensor mapped(std::vector<double> x, double (*f)(double), const Shape& shape, const Tensor& like) {
  for (double& e : x) e = f(e);
  return tensor(x, shape, like.dtype(), like.device());
}

}  // namespace

namespace {

/// How many channels are rotated.
int64_t rotated_channels(const Tensor& x, const RotaryOptions& o) {
  check(x.rank() >= 2, "rotate: x has the shape {}, wanted [.., T, D]", x.shape());
  const int64_t width = x.size(-1), size = o.size == 0 ? width : o.size;
  check(size % 2 == 0 && size > 0 && size <= width,
        "rotate: {} of {} channels cannot be rotated in pairs: wanted an even number", size, width);
  return size;
}

}  // namespace

Tensor rotate(const Tensor& x, const Tensor& cosine, const Tensor& sine, const RotaryOptions& o) {
  const int64_t size = rotated_channels(x, o), half = size / 2, width = x.size(-1);
  Shape pairs = x.shape();
  pairs.back() = half;
  for (const Tensor& table : {cosine, sine})
    check(table.rank() >= 1 && table.size(-1) == half && broadcast("rotate", table.shape(), pairs) == pairs,
          "rotate: a table of angles is {}, wanted {} or what broadcasts to it, for {} channels of {}",
          table.shape(), pairs, size, x.shape());
  const Tensor turned = slice(x, -1, 0, size);
  Tensor y;
  if (o.interleaved) {
    pairs.push_back(2);
    const Tensor p = reshape(turned, pairs), even = select(p, -1, 0), odd = select(p, -1, 1);
    y = reshape(stack({even * cosine - odd * sine, odd * cosine + even * sine}, -1), turned.shape());
  } else {
    const Tensor low = slice(turned, -1, 0, half), high = slice(turned, -1, half);
    y = concat({low * cosine - high * sine, high * cosine + low * sine}, -1);
  }
  return size == width ? y : concat({y, slice(x, -1, size)}, -1);
}

Tensor rotate(const Tensor& x, const Tensor& positions, const RotaryOptions& o) {
  const int64_t half = rotated_channels(x, o) / 2, time = x.size(-2);
  check(positions.shape() == Shape{time}, "rotate: positions are {}, wanted one for each of {} rows of {}",
        positions.shape(), time, x.shape());
  const auto a = angles(positions.values(), half, o.base);
  return rotate(x, mapped(a, std::cos, {time, half}, x), mapped(a, std::sin, {time, half}, x), o);
}

Tensor rotate(const Tensor& x, int64_t first, const RotaryOptions& options) {
  return rotate(x, arange(static_cast<double>(first), static_cast<double>(first + x.size(-2))), options);
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

Tensor sinusoidal_positions(int64_t count, int64_t width, double base, int64_t first, DType dtype) {
  check(count >= 0 && width > 0 && width % 2 == 0,
        "sinusoidal_positions: [{}, {}] wants an even number of channels", count, width);
  std::vector<double> positions(static_cast<size_t>(count)), values;
  for (size_t p = 0; p < positions.size(); ++p)
    positions[p] = static_cast<double>(first) + static_cast<double>(p);
  for (double a : angles(positions, width / 2, base)) values.insert(values.end(), {std::sin(a), std::cos(a)});
  return tensor(values, {count, width}, dtype);
}

}  // namespace vitrine::nn
