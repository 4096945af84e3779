#include "bench/measure/clock.h"

#include <algorithm>

namespace vitrine::bench {

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  const size_t n = x.size();
  return n == 0 ? 0 : (x[(n - 1) / 2] + x[n / 2]) / 2;
}

}  // namespace vitrine::bench
