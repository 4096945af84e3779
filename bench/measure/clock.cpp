#include "bench/measure/clock.h"

#include <algorithm>

namespace vitrine::bench {

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  const size_t n = x.size();
  return n == 0 ? 0 : (x[(n - 1) / 2] + x[n / 2]) / 2;
}

double best(const std::vector<double>& seconds) { return *std::min_element(seconds.begin(), seconds.end()); }

}  // namespace vitrine::bench
