#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/creation.h"
#include "core/gradcheck/check_gradients.h"
#include "core/gradcheck/differences.h"
#include "core/parallel.h"
#include "core/random.h"
#include "ops/elementwise.h"
#include "ops/view.h"
#include "tests/environment.h"
#include "tests/spec/differentiate.h"
#include "tests/spec/spec.h"

namespace vitrine::spec {
namespace {

/// Added to the seed of each draw, so that a long run can test other inputs.
uint64_t more_seed() {
  static const auto seed = static_cast<uint64_t>(test::from_environment("VITRINE_SPEC_SEED", 0));
  return seed << 32;
}

std::vector<Tensor> as(const std::vector<Tensor>& inputs, DType dtype) {
  std::vector<Tensor> result;
  for (const Tensor& x : inputs) result.push_back(copy_as(x, dtype));
  return result;
}

}  // namespace

double rounding_unit(DType dtype) { return epsilon(dtype) * (more_seed() == 0 ? 1 : 20); }

Result differentiate(const Spec& spec, const std::vector<Tensor>& inputs, const Tensor& cotangent,
                     int order) {
  Tape tape({.order = order});
  for (const Tensor& x : inputs) tape.watch(x);
  const Tensor y = spec.call(inputs);
  const Tensor seed = cotangent.defined() ? to(cast(cotangent, y.dtype()), y.device()) : Tensor();
  return {y, tape.gradient(std::vector<Tensor>{y}, inputs, {seed})};
}

std::string compare(const std::string& what, const Tensor& got, const Tensor& want, double tolerance,
                    double floor) {
  if (got.shape() != want.shape())
    return fmt::format("{}: the shape is {}, wanted {}", what, got.shape(), want.shape());
  const auto a = got.values(), b = want.values();
  const double error = distance(a, b, floor);
  if (error <= tolerance) return "";
  size_t worst = 0;
  for (size_t i = 0; i < a.size(); ++i)
    if (distance({a[i]}, {b[i]}, 1) > distance({a[worst]}, {b[worst]}, 1)) worst = i;
  return fmt::format("{}: error {:.3g} above {:.3g}; element {}: got {:.17g}, wanted {:.17g}", what, error,
                     tolerance, worst, a[worst], b[worst]);
}

std::string label(const Spec& spec, size_t sample, const std::string& check) {
  return fmt::format("{}, sample {}, {}", spec.name, sample, check);
}

namespace {

/// "" if the gradients are right, else the report.
std::string verdict(const Spec& spec, size_t sample, const std::string& what,
                    const GradientCheckOptions& options) {
  const GradientReport report = check_gradients(spec.call, draw(spec, sample), options);
  return report.passed ? "" : label(spec, sample, what) + "\n" + to_string(report);
}

}  // namespace

bool same_bits(const Tensor& x, const Tensor& y) {
  const Tensor a = to(contiguous(x), Device::cpu), b = to(contiguous(y), Device::cpu);
  return a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.numel() * a.element_size())) == 0;
}

std::vector<Tensor> draw(const Spec& spec, size_t sample) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < spec.samples[sample].size(); ++i) {
    const Input& input = spec.samples[sample][i];
    Generator generator(more_seed() + 1000 * sample + i + 1);
    Tensor x = empty(input.shape, DType::float64);
    const Tensor order = randperm(x.numel(), Device::cpu, generator);
    for (int64_t k = 0; k < x.numel(); ++k) {
      const double at = input.separated ? (static_cast<double>(order.data<int64_t>()[k]) + 0.5) /
                                              static_cast<double>(x.numel())
                                        : generator.next_uniform();
      x.data<double>()[k] = input.low + (input.high - input.low) * at;
    }
    inputs.push_back(x);
  }
  return inputs;
}

Tensor draw_cotangent(const Tensor& y, uint64_t seed) {
  Generator generator(more_seed() + seed);
  return randn(y.shape(), DType::float64, Device::cpu, 0, 1, generator);
}

std::string check_values(const Spec& spec, size_t sample) {
  const auto inputs = draw(spec, sample);
  const Tensor plain = spec.call(inputs);
  const Tensor defined = differentiate(spec, inputs, draw_cotangent(plain, 7), 2).y;
  return compare(label(spec, sample, "kernel against definition"), plain, defined, 1e-12, kValueFloor);
}

std::string check_differences(const Spec& spec, size_t sample, const Prepare& prepare) {
  return verdict(spec, sample, "gradient against differences",
                 {.probe = Probe::elements, .taylor = false, .duals = Duals::no, .prepare = prepare});
}

std::string check_dual(const Spec& spec, size_t sample, const Prepare& prepare) {
  return verdict(spec, sample, "gradient against dual numbers",
                 {.probe = Probe::elements,
                  .differences = false,
                  .taylor = false,
                  .duals = Duals::yes,
                  .prepare = prepare});
}

std::string check_higher_orders(const Spec& spec, size_t sample) {
  const auto error = verdict(spec, sample, "higher derivatives",
                             {.probe = Probe::elements,
                              .order = spec.order,
                              .differences = false,
                              .taylor = false,
                              .duals = Duals::no});
  if (!error.empty()) return error;
  const auto inputs = draw(spec, sample);
  const Tensor cotangent = draw_cotangent(spec.call(inputs), 7);
  const Result want = differentiate(spec, inputs, cotangent), got = differentiate(spec, inputs, cotangent, 2);
  for (size_t k = 0; k < inputs.size(); ++k) {
    const auto difference = compare(label(spec, sample, "gradient through the definition"), got.gradients[k],
                                    want.gradients[k], 1e-11, kGradientFloor);
    if (!difference.empty()) return difference;
  }
  return "";
}

std::string check_low_precision(const Spec& spec, size_t sample, Device device, std::optional<DType> only) {
  struct Bound {
    DType dtype;
    double units;
  };
  const bool on_cpu = device.is_cpu();
  for (const Bound& bound : {Bound{DType::float64, on_cpu ? -1 : kWideUnits},
                             {DType::float32, spec.float32_units},
                             {DType::bfloat16, spec.bfloat16_units},
                             {DType::float16, spec.float16_units * (on_cpu ? 1 : spec.gpu_float16_times)}}) {
    if (bound.units < 0 || bound.dtype != only.value_or(bound.dtype)) continue;
    const std::string where =
        fmt::format("{}{}", name(bound.dtype), on_cpu ? "" : " on " + to_string(device));
    const auto rounded = as(draw(spec, sample), bound.dtype), exact = as(rounded, DType::float64);
    const Tensor drawn = draw_cotangent(spec.call(exact), 7);
    const Tensor cotangent = copy_as(copy_as(drawn, bound.dtype), DType::float64);
    std::vector<Tensor> there;
    for (const Tensor& x : rounded) there.push_back(to(x, device));
    const Result got = differentiate(spec, there, cotangent), want = differentiate(spec, exact, cotangent);
    if (got.y.device() != device)
      return fmt::format("{} is on {}", label(spec, sample, "the result in " + where),
                         to_string(got.y.device()));
    const double tolerance = bound.units * rounding_unit(bound.dtype);
    auto error = compare(label(spec, sample, "values in " + where), got.y, want.y, tolerance, kValueFloor);
    if (!error.empty()) return error;
    for (size_t k = 0; k < rounded.size(); ++k) {
      error = compare(label(spec, sample, fmt::format("gradient {} in {}", k, where)), got.gradients[k],
                      want.gradients[k], tolerance, kGradientFloor);
      if (!error.empty()) return error;
    }
  }
  return "";
}

namespace {

/// `want` rounded to the dtype of `got`. If 8 times the value overflows, an intermediate value such
/// as a term of a sum may overflow too, and any infinity or NaN is accepted.
Tensor rounded_like(const Tensor& got, const Tensor& want) {
  const auto g = got.values(), exact = want.values();
  auto rounded = copy_as(want, got.dtype()).values();
  const auto larger = copy_as(8 * want, got.dtype()).values();
  for (size_t i = 0; i < rounded.size(); ++i)
    if (std::isfinite(exact[i]) && !std::isfinite(larger[i]) && !std::isfinite(g[i])) rounded[i] = g[i];
  return tensor(rounded, want.shape(), DType::float64);
}

/// The inputs with one element of input k replaced.
std::string check_extreme(const Spec& spec, size_t sample, size_t k, double extreme, DType dtype,
                          Device device) {
  auto inputs = draw(spec, sample);
  if (inputs[k].numel() == 0) return "";
  inputs[k].data<double>()[inputs[k].numel() / 2] = extreme;
  const auto rounded = as(inputs, dtype), exact = as(rounded, DType::float64);
  // The plain functions on dual numbers share no code with the vectorized ones.
  const Tensor plain = copy_as(spec.call(as(rounded, DType::dual64)), DType::float64);
  const Tensor cotangent = copy_as(copy_as(draw_cotangent(plain, 7), dtype), DType::float64);
  std::vector<Tensor> moved;
  for (const Tensor& x : rounded) moved.push_back(to(x, device));
  const Result got = differentiate(spec, moved, cotangent), want = differentiate(spec, exact, cotangent);
  const auto what = [&](const std::string& of) {
    return label(spec, sample, fmt::format("{} in {} where input {} has {}", of, name(dtype), k, extreme));
  };
  const double allowed = dtype == DType::float32 ? std::max(8.0, spec.float32_units) : 8;
  const double units =
      allowed * (dtype == DType::float16 && device == Device::cuda ? spec.gpu_float16_times : 1);
  const double tolerance = dtype == DType::float64 ? 1e-11 : units * rounding_unit(dtype);
  auto error = compare(what("values"), got.y, rounded_like(got.y, plain), tolerance, kValueFloor);
  for (size_t i = 0; i < inputs.size() && error.empty(); ++i)
    error = compare(what(fmt::format("gradient {}", i)), got.gradients[i],
                    rounded_like(got.gradients[i], want.gradients[i]), tolerance, kGradientFloor);
  return error;
}

}  // namespace

std::string check_extremes(const Spec& spec, size_t sample, Device device, std::optional<DType> only) {
  for (size_t k = 0; k < spec.samples[sample].size(); ++k)
    for (double extreme : {double{NAN}, double{INFINITY}, spec.largest, 1e-10 / spec.largest, 0.0}) {
      if (!spec.not_finite && !std::isfinite(extreme)) continue;
      for (double sign : {1.0, -1.0})
        for (DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::float16}) {
          if (dtype != only.value_or(dtype)) continue;
          const auto error = check_extreme(spec, sample, k, sign * extreme, dtype, device);
          if (!error.empty()) return error;
        }
    }
  return "";
}

std::string check_threads(const Spec& spec, size_t sample) {
  const auto inputs = as(draw(spec, sample), DType::float32);
  const int before = threads();
  std::vector<Result> results;
  for (int count : {1, 1, 2, 3, 7}) {
    set_threads(count);
    results.push_back(differentiate(spec, inputs, draw_cotangent(spec.call(inputs), 7)));
  }
  set_threads(before);
  for (const Result& r : results) {
    if (!same_bits(r.y, results[0].y)) return label(spec, sample, "values differ with the number of threads");
    for (size_t k = 0; k < inputs.size(); ++k)
      if (!same_bits(r.gradients[k], results[0].gradients[k]))
        return label(spec, sample, fmt::format("gradient {} differs with the number of threads", k));
  }
  return "";
}

std::string check_subsets(const Spec& spec, size_t sample) {
  const auto inputs = as(draw(spec, sample), DType::float64);
  std::vector<Tensor> before;
  for (const Tensor& x : inputs) before.push_back(copy_as(x, x.dtype()));
  const Tensor cotangent = draw_cotangent(spec.call(inputs), 7);
  const auto gradients_of = [&](size_t subset) {
    Tape tape;
    std::vector<Tensor> wanted;
    for (size_t k = 0; k < inputs.size(); ++k)
      if (subset >> k & 1) tape.watch(inputs[k]), wanted.push_back(inputs[k]);
    const Tensor y = spec.call(inputs);
    return tape.gradient({y}, wanted, {copy_as(cotangent, y.dtype())});
  };
  const size_t all = (size_t{1} << inputs.size()) - 1;
  const auto whole = gradients_of(all);
  for (size_t subset = 1; subset < all; ++subset) {
    const auto some = gradients_of(subset);
    size_t next = 0;
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (!(subset >> k & 1)) continue;
      const Tensor &got = some[next++], &want = whole[k];
      if (got.defined() != want.defined() || (got.defined() && !same_bits(got, want)))
        return label(
            spec, sample,
            fmt::format("gradient {} differs where the inputs {:b} alone, as bits, want one", k, subset));
    }
  }
  for (size_t k = 0; k < inputs.size(); ++k)
    if (!same_bits(inputs[k], before[k]))
      return label(spec, sample, fmt::format("input {} was overwritten", k));
  return "";
}

}  // namespace vitrine::spec
