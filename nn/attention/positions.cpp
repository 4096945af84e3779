#include "nn/attention/positions.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>
#include <tuple>
#include <vector>

#include "core/creation.h"
#include "ops/elementwise.h"
#include "ops/rotary.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

enum class Wave { sine, cosine, both };  // both: sin, cos, sin, cos, …

/// How fast pair i of `pairs` turns: by step·base^(−i/pairs) per position.
struct Turns {
  int64_t pairs;
  double base, step = 1;
  auto operator<=>(const Turns&) const = default;
};

/// The wave at position·step·base^(−i/pairs): [positions, pairs], or twice as wide for `both`.
Tensor waves(Wave wave, const std::vector<double>& positions, const Turns& turns, DType dtype,
             Device device) {
  const auto& [pairs, base, step] = turns;
  std::vector<double> values;
  for (double p : positions)
    for (int64_t i = 0; i < pairs; ++i) {
      const double angle = p * step * std::pow(base, -static_cast<double>(i) / static_cast<double>(pairs));
      if (wave != Wave::cosine) values.push_back(std::sin(angle));
      if (wave != Wave::sine) values.push_back(std::cos(angle));
    }
  return tensor(values, {static_cast<int64_t>(positions.size()), wave == Wave::both ? 2 * pairs : pairs},
                dtype, device);
}

/// The same for the positions first, first + 1, …: rows of a read-only table that is computed once
/// for all layers and steps. If a longer table is needed, one is added whose length is the next
/// power of two. Shorter tables are kept, because other streams may still read them.
Tensor waves(Wave wave, int64_t first, int64_t count, const Turns& turns, DType dtype, Device device) {
  constexpr int64_t kLongest = 1 << 16;
  const auto compute = [&](int64_t begin, int64_t rows) {
    std::vector<double> positions(static_cast<size_t>(rows));
    std::iota(positions.begin(), positions.end(), static_cast<double>(begin));
    return waves(wave, positions, turns, dtype, device);
  };
  if (first < 0 || first + count > kLongest) return compute(first, count);
  static std::mutex mutex;
  static auto* const tables =
      new std::map<std::tuple<Wave, Turns, DType, DeviceKind, int8_t>, std::vector<Tensor>>;
  const std::lock_guard lock(mutex);
  std::vector<Tensor>& of_lengths = (*tables)[{wave, turns, dtype, device.kind, device.index}];
  if (of_lengths.empty() || of_lengths.back().size(0) < first + count)
    of_lengths.push_back(
        compute(0, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(first + count)))));
  return slice(of_lengths.back(), 0, first, first + count);
}

/// The number of channels to rotate.
int64_t rotated_channels(const Tensor& x, const RotaryOptions& o) {
  check(x.rank() >= 2, "rotate: x has the shape {}, wanted [.., T, D]", x.shape());
  const int64_t width = x.size(-1), size = o.size == 0 ? width : o.size;
  check(size % 2 == 0 && size > 0 && size <= width,
        "rotate: {} of {} channels cannot be rotated in pairs: wanted an even number", size, width);
  return size;
}

Turns turns_of(const Tensor& x, const RotaryOptions& o) {
  const int64_t size = rotated_channels(x, o);
  check(o.linear > 0 && o.ntk > 0, "rotate: linear is {} and ntk {}, wanted numbers above 0", o.linear,
        o.ntk);
  check(o.ntk == 1 || size > 2, "rotate: ntk is {}, wanted 1 for a single pair, which has no slower one",
        o.ntk);
  const double slower =
      o.ntk == 1 ? 1 : std::pow(o.ntk, static_cast<double>(size) / static_cast<double>(size - 2));
  return {size / 2, o.base * slower, 1 / o.linear};
}

}  // namespace

Tensor rotate(const Tensor& x, const Tensor& cosine, const Tensor& sine, const RotaryOptions& o) {
  const int64_t size = rotated_channels(x, o);
  Shape pairs = x.shape();
  pairs.back() = size / 2;
  for (const Tensor& table : {cosine, sine})
    check(table.rank() >= 1 && table.size(-1) == pairs.back() &&
              broadcast("rotate", table.shape(), pairs) == pairs,
          "rotate: a table of angles is {}, wanted {} or what broadcasts to it, for {} channels of {}",
          table.shape(), pairs, size, x.shape());
  return rotary(x, cosine, sine, o.interleaved);
}

Tensor rotate(const Tensor& x, const Tensor& positions, const RotaryOptions& o) {
  const Turns turns = turns_of(x, o);
  const int64_t time = x.size(-2);
  check(positions.shape() == Shape{time}, "rotate: positions are {}, wanted one for each of {} rows of {}",
        positions.shape(), time, x.shape());
  const auto table = [&](Wave wave) {
    return waves(wave, positions.values(), turns, accumulation_dtype(x.dtype()), x.device());
  };
  return rotary(x, table(Wave::cosine), table(Wave::sine), o.interleaved);
}

Tensor rotate(const Tensor& x, int64_t first, const RotaryOptions& o) {
  const Turns turns = turns_of(x, o);
  const auto table = [&](Wave wave) {
    return waves(wave, first, x.size(-2), turns, accumulation_dtype(x.dtype()), x.device());
  };
  return rotary(x, table(Wave::cosine), table(Wave::sine), o.interleaved);
}

Tensor rotate(const Tensor& x, const RowPositions& at, const RotaryOptions& o) {
  if (!at.start.defined()) return rotate(x, at.first, o);
  const Turns turns = turns_of(x, o);
  check(x.rank() == 4 && at.start.shape() == Shape{x.size(0)},
        "rotate: the starts are {}, wanted one for each row of x {}", at.start.shape(), x.shape());
  // Angles in float64: a table of all positions would be long where few of them are wanted.
  const Tensor position =
      cast(arange(at.first, at.first + x.size(2), 1, DType::int64, x.device()) - unsqueeze(at.start, 1),
           DType::float64);
  const Tensor pair = arange(0, turns.pairs, 1, DType::float64, x.device());
  const Tensor speed = exp(pair * (-std::log(turns.base) / static_cast<double>(turns.pairs))) * turns.step;
  const Tensor angle = unsqueeze(unsqueeze(position, 1), -1) * speed;  // [B, 1, T, pairs]
  const DType dtype = accumulation_dtype(x.dtype());
  return rotary(x, cast(cos(angle), dtype), cast(sin(angle), dtype), o.interleaved);
}

Tensor alibi_slopes(int64_t heads, Device device) {
  check(heads > 0, "alibi_slopes: wanted at least one head, got {}", heads);
  static std::mutex mutex;
  static auto* const tables = new std::map<std::tuple<int64_t, DeviceKind, int8_t>, Tensor>;
  const std::lock_guard lock(mutex);
  Tensor& table = (*tables)[{heads, device.kind, device.index}];
  if (table.defined()) return table;
  int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> slopes;
  for (int64_t i = 0; i < power; ++i)
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(i + 1) / static_cast<double>(power)));
  for (int64_t i = 0; static_cast<int64_t>(slopes.size()) < heads; i += 2)
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(i + 1) / static_cast<double>(2 * power)));
  return table = tensor(slopes, {heads}, DType::float64, device);
}

Tensor position_distances(int64_t queries, int64_t keys, DType dtype, Device device) {
  const auto first = static_cast<double>(keys - queries), end = static_cast<double>(keys);
  const Tensor own = reshape(arange(first, end, 1, dtype, device), {queries, 1});
  return abs(own - arange(0, end, 1, dtype, device));
}

int64_t relative_bucket(int64_t relative, const RelativeBuckets& b) {
  const int64_t count = b.bidirectional ? b.count / 2 : b.count, exact = count / 2;
  check(b.count % 2 == 0 && exact >= 1 && b.max_distance > exact,
        "relative_bucket: {} buckets up to distance {}, wanted an even number of at least {} buckets, and a "
        "distance above {}",
        b.count, b.max_distance, b.bidirectional ? 4 : 2, std::max<int64_t>(exact, 1));
  const int64_t first = b.bidirectional && relative > 0 ? count : 0;
  const int64_t distance = b.bidirectional ? std::abs(relative) : std::max<int64_t>(-relative, 0);
  if (distance < exact) return first + distance;
  const auto start = static_cast<float>(exact), end = static_cast<float>(b.max_distance);
  const float share = std::log(static_cast<float>(distance) / start) / std::log(end / start);
  return first + std::min(exact + static_cast<int64_t>(share * static_cast<float>(count - exact)), count - 1);
}

Tensor sinusoidal_positions(int64_t count, int64_t width, double base, int64_t first, DType dtype,
                            Device device) {
  check(count >= 0 && width > 0 && width % 2 == 0,
        "sinusoidal_positions: [{}, {}] requires an even number of channels", count, width);
  return copy_as(waves(Wave::both, first, count, {width / 2, base}, dtype, device), dtype);
}

}  // namespace vitrine::nn
