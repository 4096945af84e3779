// Uniform random numbers of any floating type, for both devices.
#pragma once

#include <cmath>
#include <limits>

#include "core/convert.h"
#include "core/philox.h"

namespace vitrine {

/// The largest T below `limit`.
template <class T>
T largest_below(double limit) {
  T x = convert<T>(limit);
  if (convert<double>(x) < limit) return x;
  if constexpr (is_low_precision(
                    dtype_v<T>)) {  // sign and magnitude: the bits count up from 0 on either side
    const float value = x;
    x.bits = value == 0 ? uint16_t{0x8001} : static_cast<uint16_t>(value > 0 ? x.bits - 1 : x.bits + 1);
  } else {
    using Number = std::conditional_t<std::is_same_v<T, float>, float, double>;
    x = T(std::nextafter(convert<Number>(x), -std::numeric_limits<Number>::infinity()));
  }
  return x;
}

/// low + (high − low)·u with u uniform in [0, 1). A value that T would round to `high` or more
/// becomes the largest T below `high`.
template <class T>
class Uniform {
 public:
  Uniform(double low, double high)
      : low_(low), high_(high), last_(low < high ? largest_below<T>(high) : convert<T>(high)) {}
  VITRINE_HD T operator()(uint32_t word) const {
    const T x = convert<T>(low_ + (high_ - low_) * static_cast<double>(to_uniform(word)));
    return convert<double>(x) < high_ ? x : last_;
  }

 private:
  double low_, high_;
  T last_;
};

}  // namespace vitrine
