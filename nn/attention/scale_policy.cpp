#include "nn/attention/scale_policy.h"

#include <bit>
#include <cmath>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "core/creation.h"
#include "nn/attention/scale.h"

namespace vitrine::nn {
namespace {

using Setting = AttentionSetting;

}  // namespace

double score_scale(const Setting& s, int64_t head_size, double n) {
  if (s.scale == Setting::Scale::constant) return s.constant;
  n = std::max(n, 2.0);
  const auto d = static_cast<double>(head_size);
  if (s.score == Setting::Score::cosine) return gradient_optimal_cosine_scale(n, d);
  const double root = 1 / std::sqrt(d);
  switch (s.scale) {
    case Setting::Scale::optimal: return gradient_optimal_scale(n) * root;
    case Setting::Scale::entropy: return entropy_factor(n) * root;
    default: return root;
  }
}

Tensor score_scales(const Setting& s, int64_t head_size, int64_t last, Device device) {
  static std::mutex mutex;
  static auto* const tables =
      new std::map<std::tuple<Setting::Score, Setting::Scale, double, int64_t, DeviceKind, int8_t>,
                   std::vector<Tensor>>;
  const std::lock_guard lock(mutex);
  // Shorter ones stay: other streams may be reading them.
  std::vector<Tensor>& of_lengths =
      (*tables)[{s.score, s.scale, s.constant, head_size, device.kind, device.index}];
  if (of_lengths.empty() || of_lengths.back().numel() <= last) {
    std::vector<double> scales(std::bit_ceil(static_cast<uint64_t>(last) + 1));
    for (size_t n = 0; n < scales.size(); ++n) scales[n] = score_scale(s, head_size, static_cast<double>(n));
    of_lengths.push_back(tensor(scales, {static_cast<int64_t>(scales.size())}, DType::float64, device));
  }
  return of_lengths.back();
}

double common_keys(const Setting& s, int64_t context) {
  return s.keys == Setting::Keys::given ? s.n : std::max<double>(2, static_cast<double>(context) / 2);
}

std::string describe_scale(const Setting& s, int64_t head_size, int64_t context) {
  const double n = common_keys(s, context), scale = score_scale(s, head_size, n);
  if (s.scale == Setting::Scale::constant)
    return fmt::format("the scores are multiplied by {:.6g}, a constant", scale);
  const bool cosine = s.score == Setting::Score::cosine;
  if (s.scale == Setting::Scale::standard && !cosine)
    return fmt::format("the scores are multiplied by {:.6g}: 1/√D", scale);
  const char* const rule =
      s.scale == Setting::Scale::entropy && !cosine ? "log n/log 512/√D" : "gradient-optimal";
  if (s.keys == Setting::Keys::visible)
    return fmt::format(
        "the scores are multiplied by what is {} for the n keys that their query sees: {:.6g} "
        "at n = {}",
        rule, scale, n);
  return fmt::format("the scores are multiplied by {:.6g}: {} for n = {} keys", scale, rule, n);
}

}  // namespace vitrine::nn
