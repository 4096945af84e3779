#include "tests/nn/mixer_checks.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <map>
#include <sstream>

#include "core/creation.h"
#include "core/parallel.h"
#include "core/random.h"
#include "core/tape.h"
#include "nn/check_gradients.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/view.h"
#include "tests/environment.h"
#include "tests/nn/mechanisms.h"
#include "tests/nn/modules.h"
#include "tests/nn/small_mixers.h"
#include "tests/ops/reference.h"
#include "tests/spec/spec.h"

namespace vitrine::test::small_mixers {
namespace {

using nn::Mixer, nn::MixerCall;
const MixerCall kCausal{.mask = {.causal = true}};

/// Every element, if there are not too many.
Probe probe_of(Mixer& mixer, Depth depth) {
  return depth == Depth::pair || mixer.parameter_count() > 600 ? Probe::directions : Probe::elements;
}

Finding gradients(const char* check, Mixer& mixer, const std::vector<Tensor>& inputs, Depth depth, int order,
                  const std::function<Tensor(const std::vector<Tensor>&)>& f) {
  GradientCheckOptions options{.probe = order > 1 ? Probe::directions : probe_of(mixer, depth),
                               .order = order};
  const GradientReport report = nn::check_gradients(mixer, f, inputs, options);
  Finding finding{.check = check};
  for (const auto& input : report.inputs) {
    if (order > 1) {
      if (!input.higher_errors.empty()) finding.error = std::max(finding.error, input.higher_errors[0]);
      finding.limit = 1e-6;
    } else {
      finding.error = std::max(finding.error, input.difference_error);
      finding.limit = std::max(finding.limit, input.limit);
    }
  }
  if (!report.passed) finding.failure = to_string(report);
  return finding;
}

Finding differences(const std::string& name, Depth depth) {
  const auto mixer = made(name);
  const MixerCall call = call_of(name);
  return gradients("differences", *mixer, {input()}, depth, 1,
                   [&](const auto& x) { return mixer->forward(x[0], call); });
}

Finding second_derivatives(const std::string& name, Depth depth) {
  const auto mixer = made(name);
  const MixerCall call = call_of(name);
  return gradients("second derivatives", *mixer, {slice(slice(input(), 0, 0, 1), 1, 0, 3)}, depth, 2,
                   [&](const auto& x) { return mixer->forward(x[0], call); });
}

/// Every gradient by exact dual numbers, which run through definitions only.
Finding dual_numbers(const std::string& name, Depth depth) {
  const auto mixer = made(name);
  const MixerCall call = call_of(name);
  GradientCheckOptions options{.probe = probe_of(*mixer, depth)};
  options.differences = options.taylor = false, options.duals = Duals::yes;
  const GradientReport report = nn::check_gradients(
      *mixer, [&](const auto& x) { return mixer->forward(x[0], call); }, {input()}, options);
  Finding finding{.check = "dual numbers", .limit = options.dual_tolerance};
  for (const auto& given : report.inputs) finding.error = std::max(finding.error, given.dual_error);
  if (!report.passed) finding.failure = to_string(report);
  return finding;
}

/// The largest relative distance of results that belong together.
double largest_distance(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  double error = 0;
  for (size_t i = 0; i < want.size(); ++i)
    error = std::max(error, distance(to(got[i], Device::cpu), want[i], 1e-2));
  return error;
}

/// The kernels give what the definitions of their ops give, which a tape of order 2 records.
Finding definitions(const std::string& name, Depth) {
  const auto mixer = made(name);
  const MixerCall call = call_of(name);
  return within("definitions", largest_distance(run(*mixer, input(), call), run(*mixer, input(), call, 2)),
                1e-11);
}

/// An input in any layout gives what a contiguous copy gives.
Finding layouts(const std::string& name, Depth) {
  const auto mixer = made(name);
  const MixerCall call = call_of(name);
  double error = 0;
  for (const spec::Layout& layout : spec::layouts())
    if (const Tensor x = layout.of(input()); x.defined())
      error = std::max(error, largest_distance(run(*mixer, x, call), run(*mixer, clone(x), call)));
  return within("layouts", error, 1e-12);
}

/// Large and small inputs give finite outputs and gradients in float32.
Finding magnitudes(const std::string& name, Depth) {
  const auto mixer = made(name);
  mixer->to(DType::float32);
  for (const double size : {1e4, 1e3, 1e2, 1e-20})
    for (const Tensor& result : run(*mixer, cast(input() * size, DType::float32), call_of(name)))
      for (const double e : result.values())
        if (!std::isfinite(e))
          return failed("magnitudes", fmt::format("inputs of about {:.0e} give NaN or infinity", size));
  return within("magnitudes", 0, 0);
}

/// A change from position 3 on changes nothing before it.
Finding causality(const std::string& name, Depth) {
  const auto mixer = made(name, true);
  const Tensor x = input(), later = concat({slice(x, 1, 0, 3), slice(x, 1, 3, kTime) + 1}, 1);
  const Tensor y = mixer->forward(x, kCausal), changed = mixer->forward(later, kCausal);
  if (distance(slice(y, 1, 3, kTime), slice(changed, 1, 3, kTime), 1e-2) < 1e-6)
    return failed("causality", "the output does not depend on the input");
  return within("causality", distance(slice(y, 1, 0, 3), slice(changed, 1, 0, 3), 1e-2), 1e-12);
}

Finding decoding(const std::string& name, Depth) {
  const auto mixer = made(name, true);
  const Tensor x = input(), whole = mixer->forward(x, kCausal);
  const auto state = mixer->make_state(2, kTime);
  MixerCall call = kCausal;
  call.state = state.get();
  double error = 0;
  for (const auto& [from, to] : {std::pair{0, 1}, {1, 2}, {2, 4}, {4, 5}})
    error = std::max(error,
                     distance(mixer->forward(slice(x, 1, from, to), call), slice(whole, 1, from, to), 1e-2));
  return within("decoding", error, 1e-11);
}

/// A row whose first two positions are padding, as generation passes it, gives what it gives alone.
/// A mixer whose row says that it takes no padding refuses it, and names itself; so does linformer.
Finding padding_before(const std::string& name, Depth) {
  const auto mixer = made(name);
  const Tensor x = input(), start = index_tensor(std::vector<int64_t>{0, 2}, {2});
  nn::MixerCall call = call_of(name);
  call.mask.start = start;
  call.mask.allowed = greater_equal(arange(0, kTime), reshape(start, {2, 1, 1, 1}));
  try {
    const Tensor padded = slice(slice(mixer->forward(x, call), 0, 1, 2), 1, 2, kTime);
    const Tensor alone = mixer->forward(slice(slice(x, 0, 1, 2), 1, 2, kTime), call_of(name));
    return within("padding before", distance(padded, alone, 1e-2), 1e-12);
  } catch (const Error& e) {
    const nn::MixerRow& base = *nn::parse_mixer(name).base;
    const bool may_refuse = !base.padding || base.name == "linformer";
    if (!may_refuse || std::string(e.what()).find(base.name) == std::string::npos) throw;
    return {.check = "padding before", .note = "refused"};
  }
}

/// A row gives what it gives alone at its own length, with padding after it. A row without
/// positions is finite, and its input has no gradient.
Finding lengths(const std::string& name, Depth) {
  const auto mixer = made(name);
  const Tensor x = input();
  MixerCall call = call_of(name);
  call.lengths = index_tensor(std::vector<int64_t>{kTime, 3}, {2});
  const Tensor row = slice(slice(x, 0, 1, 2), 1, 0, 3);
  const double error = distance(slice(slice(mixer->forward(x, call), 0, 1, 2), 1, 0, 3),
                                mixer->forward(row, call_of(name)), 1e-2);
  call.lengths = index_tensor(std::vector<int64_t>{kTime, 0}, {2});
  const auto results = run(*mixer, x, call);
  for (const Tensor& result : results)
    for (const double e : result.values())
      if (!std::isfinite(e)) return failed("lengths", "a row without positions gives NaN or infinity");
  for (const double e : select(results[1], 0, 1).values())
    if (e != 0) return failed("lengths", "the input of a row without positions has a gradient");
  return within("lengths", error, 1e-12);
}

/// Cross-attention to a source of another length.
Finding cross(const std::string& name, Depth depth) {
  const auto mixer = made(name, false);
  const Tensor x = slice(input(), 1, 0, 3), source = normal({2, 4, kWidth}, 9);
  return gradients("another length of keys", *mixer, {x, source}, depth == Depth::pair ? depth : Depth::whole,
                   1, [&](const auto& in) { return mixer->forward(in[0], {.source = in[1]}); });
}

Finding threads_(const std::string& name, Depth) {
  const auto mixer = made(name);
  const int before = threads();
  std::vector<std::vector<double>> first;
  double different = 0;
  for (const int count : {1, 2, 3, 7}) {
    set_threads(count);
    std::vector<std::vector<double>> bits;
    for (const Tensor& result : run(*mixer, input(), call_of(name))) bits.push_back(result.values());
    if (first.empty()) first = bits;
    different += bits != first;
  }
  set_threads(before);
  return within("bits on 1, 2, 3 and 7 threads", different, 0);
}

/// The largest error in 16 bits, in units of epsilon. The larger limit is for mixers with a norm
/// after each head: where a head is nearly constant, the norm enlarges the rounding of its inputs.
double units_in_16_bits(const std::string& name) {
  for (const char* normalized : {"retention", "gated_linear", "delta"})
    if (name.starts_with(normalized)) return 6;
  return 4;
}

/// The error in units of the dtype's epsilon, against float64 on the same rounded numbers.
Finding low_precision(const char* check, const std::string& name, DType dtype) {
  const auto mixer = made(name), wide = made(name);
  mixer->to(dtype);
  wide->copy_from(*mixer);
  wide->to(DType::float64);
  const Tensor x = cast(input(), dtype);
  const auto got = run(*mixer, x, call_of(name)), want = run(*wide, cast(x, DType::float64), call_of(name));
  double error = 0;
  // y, and the gradient of x. The gradient of sparsemax jumps where a weight becomes 0, and
  // rounding may lead over such a place.
  const size_t compared = name.find("sparsemax") == std::string::npos ? 2 : 1;
  for (size_t i = 0; i < compared; ++i)
    error = std::max(error, spec::distance(got[i].values(), want[i].values(), 0.1));
  return within(check, error / epsilon(dtype), units_in_16_bits(name));
}

/// The number of nodes in which mistakes are planted.
size_t most_mistakes() { return all_samples() ? 16 : 4; }
/// Multiplies the gradients of one node of the tape by 1.01, node by node; on a long tape only of
/// evenly spaced nodes. Each such mistake that changes a gradient must be found.
Finding planted_mistakes(const std::string& name, Depth) {
  const auto mixer = made(name);
  const MixerCall call = call_of(name);
  const Tensor x = slice(input(), 0, 0, 1);
  const auto gradients_with = [&](const std::function<void(Tape&)>& change) {
    Tape tape;
    tape.watch(x);
    const Tensor y = mixer->forward(x, call);
    change(tape);
    std::vector<Tensor> sources = {x};
    for (const Parameter& p : mixer->parameters())
      if (p.requires_grad()) sources.push_back(p.value());
    return tape.gradient({y}, sources, {spec::draw_cotangent(y, 5)});
  };
  std::vector<size_t> nodes;
  size_t planted = 0, found = 0;
  const auto right = gradients_with([&](Tape& tape) {
    for (size_t i = 0; i < tape.size(); ++i)
      if (!tape.info(i).output_slots.empty()) nodes.push_back(i);
  });
  const size_t step = (nodes.size() + most_mistakes() - 1) / most_mistakes();
  for (size_t i = 0; i < nodes.size(); i += step) {
    const size_t node = nodes[i];
    const auto plant = [node](Tape& tape) {
      tape.change_gradients(node, [](Grads& grads) {
        for (Grad& grad : grads)
          if (grad.defined()) grad = grad.scaled(1.01);
      });
    };
    const auto wrong = gradients_with(plant);
    double change = 0;
    for (size_t j = 0; j < right.size(); ++j)
      if (right[j].defined()) change = std::max(change, distance(right[j], wrong[j], 1e-2));
    if (change < 1e-5) continue;
    ++planted;
    GradientCheckOptions options{.probe = Probe::directions, .taylor = false, .duals = Duals::no};
    options.prepare = plant;
    found += !nn::check_gradients(
                  *mixer, [&](const auto& xs) { return mixer->forward(xs[0], call); }, {x}, options)
                  .passed;
  }
  Finding finding = within("planted mistakes", static_cast<double>(planted - found), 0);
  finding.note = fmt::format("{} of {} found", found, planted);
  if (planted == 0) finding.failure = "no mistake changes a gradient";
  return finding;
}

/// NaN in one row of the batch stays there, and is not lost.
Finding not_a_number(const std::string& name, Depth) {
  const auto mixer = made(name);
  const MixerCall call = call_of(name);
  const Tensor x = contiguous(input()), y = mixer->forward(x, call);
  x.data<double>()[2 * kWidth] = NAN;
  const Tensor spoilt = mixer->forward(x, call);
  bool lost = true;
  for (const double e : slice(select(spoilt, 0, 0), 0, 2, 3).values()) lost &= !std::isnan(e);
  if (lost) return failed("NaN", "NaN in the input is lost");
  return within("NaN", distance(select(spoilt, 0, 1), select(y, 0, 1), 1e-2), 1e-12);
}

Finding gpu(const std::string& name, Depth) {
  const auto on_cpu = made(name), on_gpu = made(name);
  on_gpu->to(Device::cuda);
  const auto want = run(*on_cpu, input(), call_of(name)),
             got = run(*on_gpu, to(input(), Device::cuda), call_of(name));
  return within("GPU against CPU", largest_distance(got, want), 1e-11);
}

struct Check {
  const char* name;
  Depth depth;
  std::function<Finding(const std::string&, Depth)> run;
  bool of_sequences = false;  ///< a module has no order of positions, lengths and state
};

std::vector<Check> checks() {
  std::vector<Check> all = {
      {"differences", Depth::pair, differences},
      {"dual numbers", Depth::pair, dual_numbers},
      {"second derivatives", Depth::whole, second_derivatives},
      {"definitions", Depth::whole, definitions},
      {"layouts", Depth::whole, layouts},
      {"magnitudes", Depth::whole, magnitudes},
      {"causality", Depth::pair, causality, true},
      {"decoding", Depth::pair, decoding, true},
      {"lengths", Depth::pair, lengths, true},
      {"padding before", Depth::pair, padding_before, true},
      {"another length of keys", Depth::pair, cross, true},
      {"bits on 1, 2, 3 and 7 threads", Depth::whole, threads_},
      {"bfloat16", Depth::whole,
       [](const std::string& name, Depth) { return low_precision("bfloat16", name, DType::bfloat16); }},
      {"float16", Depth::whole,
       [](const std::string& name, Depth) { return low_precision("float16", name, DType::float16); }},
      {"NaN", Depth::whole, not_a_number},
      {"planted mistakes", Depth::whole, planted_mistakes},
  };
  if (gpu_count() > 0) all.push_back({"GPU against CPU", Depth::whole, gpu});
  return all;
}

/// Why the library computes nothing. A reason that names no word of the name is a failure.
Finding refusal(const char* check, const std::string& reason, const std::string& name) {
  std::stringstream pieces(name);
  for (std::string piece; std::getline(pieces, piece, '+');)
    if (reason.find(piece.substr(0, piece.find('='))) != std::string::npos)
      return {.check = check, .refused = reason};
  return {.check = check, .refused = reason, .failure = "an error that names no part: " + reason};
}

}  // namespace
}  // namespace vitrine::test::small_mixers

namespace vitrine::test {

std::vector<Finding> check_mixer(const std::string& name, Depth depth) {
  using namespace small_mixers;
  try {
    made(name);
  } catch (const Error& e) {
    return {refusal("made", e.what(), name)};
  }
  std::vector<Finding> findings;
  for (const Check& check : checks()) {
    if (check.depth == Depth::whole && depth == Depth::pair) continue;
    if (check.of_sequences && find_module(name) != nullptr) continue;
    try {
      findings.push_back(check.run(name, depth));
    } catch (const Error& e) {
      findings.push_back(refusal(check.name, e.what(), name));
    }
  }
  return findings;
}

}  // namespace vitrine::test
