#include "nn/attention/retention.h"

#include <cmath>
#include <vector>

#include "core/creation.h"
#include "nn/attention/positions.h"
#include "ops/norm.h"
#include "ops/view.h"

namespace vitrine::nn {

Retention::Retention(const MixerOptions& o, double theta)
    : ScanMixer("retention", o, Gate::yes), theta_(theta) {
  check(o.width / o.heads % 2 == 0, "retention: the head size is {}, wanted an even one, such as {}",
        o.width / o.heads, o.width / o.heads + 1);
}

void Retention::prepare(Heads& heads, const Tensor&, int64_t first) const {
  const RotaryOptions options{.base = theta_, .interleaved = true};
  heads.q = rotate(heads.q, first, options), heads.k = rotate(heads.k, first, options);
  std::vector<double> decays;
  for (int64_t h = 0; h < options_.heads; ++h)
    decays.push_back(std::log1p(-std::exp2(-5 - static_cast<double>(h))));
  heads.scan.log_decay =
      tensor(decays, {1, options_.heads, 1}, accumulation_dtype(heads.q.dtype()), heads.q.device());
}

Tensor Retention::normalized(const Tensor& o) const { return layer_norm(o); }

Retention Retention::clone() {
  return clone_into([this] { return Retention(options_, theta_); });
}

}  // namespace vitrine::nn
