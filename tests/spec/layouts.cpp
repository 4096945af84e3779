// Operands as views: an operation gives the same result for every memory layout of its operands.
#include <algorithm>
#include <cmath>

#include "core/creation.h"
#include "core/parallel.h"
#include "core/simd/isa.h"
#include "core/tensor_kernels.h"
#include "ops/view.h"
#include "tests/spec/differentiate.h"
#include "tests/spec/spec.h"

namespace vitrine::spec {
namespace {

/// Writes the values of x into `view`, whose memory is separate.
Tensor filled(Tensor view, const Tensor& x) {
  VITRINE_RUN(copy, view, x);
  return view;
}

/// A buffer of NaN, or of a number that is not a valid index, to detect a kernel that reads a gap.
Tensor gaps(const Shape& shape, const Tensor& x) {
  return full(shape,
              is_floating(x.dtype())        ? NAN
              : x.dtype() == DType::boolean ? 1
                                            : 1e6,
              x.dtype(), x.device());
}

/// The axes in reverse order in memory, and a gap between elements.
Tensor reversed_with_gaps(const Tensor& x) {
  Axes reversed;
  for (int i = x.rank() - 1; i >= 0; --i) reversed.push_back(i);
  Shape wide = permute(x, reversed).shape();
  wide.push_back(2);
  return filled(permute(select(gaps(wide, x), -1, 1), reversed), x);
}

Tensor transposed(const Tensor& x) { return x.rank() < 2 ? Tensor() : transpose(contiguous(transpose(x))); }

/// Contiguous rows with gaps between them.
Tensor rows_with_gaps(const Tensor& x) {
  if (x.rank() < 1) return {};
  Shape wide = x.shape();
  wide.back() += 3;
  return filled(slice(gaps(wide, x), -1, 1, x.size(-1) + 1), x);
}

Tensor flipped_along(const Tensor& x, const Axes& axes) { return flip(contiguous(flip(x, axes)), axes); }

Tensor flipped(const Tensor& x) {
  Axes all;
  for (int i = 0; i < x.rank(); ++i) all.push_back(i);
  return x.rank() < 1 ? Tensor() : flipped_along(x, all);
}

Tensor flipped_rows(const Tensor& x) { return x.rank() < 2 ? Tensor() : flipped_along(x, {-2}); }

/// The first part of x along an axis, repeated at all positions of that axis.
Tensor expanded_along(const Tensor& x, int64_t axis) {
  if (x.rank() < -axis || x.size(axis) == 0) return {};
  return expand(slice(contiguous(x), axis, 0, 1), x.shape());
}

Tensor expanded_elements(const Tensor& x) { return expanded_along(x, -1); }
Tensor expanded_rows(const Tensor& x) { return expanded_along(x, -2); }
Tensor expanded_matrices(const Tensor& x) { return expanded_along(x, -3); }

Tensor one_element(const Tensor& x) {
  if (x.rank() < 1 || x.numel() == 0) return {};
  return expand(slice(reshape(contiguous(x), {-1}), 0, 0, 1), x.shape());
}

/// Windows on a signal, in the form that a convolution reads: each row begins half a row, or one
/// element, after the previous row.
Tensor windows(const Tensor& x, bool by_half) {
  if (x.rank() < 2 || x.numel() == 0) return {};
  const Tensor y = contiguous(x);
  Strides strides = y.strides();
  strides[x.rank() - 2] = by_half ? std::max<int64_t>(1, x.size(-1) / 2) : 1;
  return y.alias(x.shape(), strides);
}

Tensor windows_by_one(const Tensor& x) { return windows(x, false); }
Tensor windows_by_half(const Tensor& x) { return windows(x, true); }

/// The operands of one call: the inputs, followed by the cotangent.
Result run(const Spec& spec, std::vector<Tensor> operands) {
  const Tensor cotangent = operands.back();
  operands.pop_back();
  return differentiate(spec, operands, cotangent);
}

/// The result for contiguous copies of the operands; `known` if the operands have the values of
/// `plain`.
Result wanted(const Spec& spec, const std::vector<Tensor>& operands, const std::vector<Tensor>& plain,
              const Result& known) {
  std::vector<Tensor> copies;
  bool same = true;
  for (size_t i = 0; i < operands.size(); ++i) {
    copies.push_back(contiguous(operands[i]));
    same = same && (operands[i].is_same(plain[i]) || same_bits(operands[i], plain[i]));
  }
  return same ? known : run(spec, copies);
}

std::string compare_results(const std::string& what, const Result& got, const Result& want,
                            double tolerance) {
  std::string error = compare("values of " + what, got.y, want.y, tolerance, kValueFloor);
  for (size_t k = 0; k < want.gradients.size() && error.empty(); ++k)
    error = compare(fmt::format("gradient {} of {}", k, what), got.gradients[k], want.gradients[k], tolerance,
                    kGradientFloor);
  return error;
}

/// Each operand alone in every layout, and then all operands. On a GPU, which may be emulated, only
/// all operands together.
std::string check_operands(const Spec& spec, const std::string& where, const std::vector<Tensor>& plain,
                           double tolerance) {
  const Result known = run(spec, plain);
  for (const Layout& layout : layouts())
    for (size_t k = plain.back().device().is_cpu() ? 0 : plain.size(); k <= plain.size(); ++k) {
      std::vector<Tensor> operands = plain;
      bool applies = false;
      for (size_t i = 0; i < plain.size(); ++i)
        if (i == k || k == plain.size())
          if (const Tensor x = layout.of(plain[i]); x.defined()) operands[i] = x, applies = true;
      if (!applies) continue;
      const std::string which = k == plain.size()       ? "all operands"
                                : k + 1 == plain.size() ? "the cotangent"
                                                        : fmt::format("input {}", k);
      const auto error =
          compare_results(fmt::format("{}, {} {}", where, which, layout.name), run(spec, operands),
                          wanted(spec, operands, plain, known), tolerance);
      if (!error.empty()) return error;
    }
  return "";
}

/// Runs on one thread, which is fastest for operands this small. check_threads checks that threads
/// change no bit.
class OneThread {
 public:
  OneThread() { set_threads(1); }
  ~OneThread() { set_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_ = threads();
};

std::vector<Isa> instruction_sets(Device device) {
  if (!device.is_cpu()) return {isa()};
  std::vector<Isa> sets;
  for (const Isa set : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx, Isa::amx_emulated})
    if (detail::includes(isa(), set)) sets.push_back(set);
  return sets;
}

}  // namespace

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = {
      {"with reversed axes and gaps", reversed_with_gaps},
      {"transposed", transposed},
      {"with gaps between rows", rows_with_gaps},
      {"flipped", flipped},
      {"with flipped rows", flipped_rows},
      {"with one element in each row", expanded_elements},
      {"with one row in each matrix", expanded_rows},
      {"with one matrix", expanded_matrices},
      {"of one element", one_element},
      {"of windows one element apart", windows_by_one},
      {"of windows half a row apart", windows_by_half},
  };
  return all;
}

std::string check_layouts(const Spec& spec, size_t sample, Device device, std::optional<DType> only) {
  const OneThread one_thread;
  const double float16_units = spec.float16_units * (device.is_cpu() ? 1 : spec.gpu_float16_times);
  for (const Isa set : instruction_sets(device)) {
    const detail::IsaScope scope(set);
    for (const auto& [dtype, units] : {std::pair{DType::float64, device.is_cpu() ? 4000 : kWideUnits},
                                       {DType::float32, spec.float32_units},
                                       {DType::bfloat16, spec.bfloat16_units},
                                       {DType::float16, float16_units}}) {
      if (units < 0 || dtype != only.value_or(dtype)) continue;
      std::vector<Tensor> operands;
      for (const Tensor& x : draw(spec, sample)) operands.push_back(to(copy_as(x, dtype), device));
      const Tensor y = spec.call(operands);
      operands.push_back(to(copy_as(draw_cotangent(y, 7), y.dtype()), device));
      const std::string where =
          label(spec, sample, fmt::format("{} on {}", name(dtype), device.is_cpu() ? name(set) : "a GPU"));
      // Sums may be added in another order.
      const auto error = check_operands(spec, where, operands, 2 * units * rounding_unit(dtype));
      if (!error.empty()) return error;
    }
  }
  return "";
}

}  // namespace vitrine::spec
