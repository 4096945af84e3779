// The ladder of matrix products on a GPU (cuda/matmul/) against cuBLASLt: squares, and the products
// of a training step of GPT-2 124M. The result of each step is first compared with the result of
// cuBLASLt. Times are measured on the GPU by events. Runs alternate, so that a disturbance affects
// all steps, and the median counts.
#include <fmt/format.h>

#if VITRINE_CUDA_KERNELS && !VITRINE_CUDA_EMULATED

#include <cuda_runtime.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "bench/measure/clock.h"
#include "bench/measure/gpu.h"
#include "bench/measure/markdown.h"
#include "core/creation.h"
#include "core/gradcheck/differences.h"
#include "core/random.h"
#include "cuda/matmul/steps.h"
#include "ops/view.h"

using namespace vitrine;
using cuda::MatmulStep, cuda::Product;

namespace {

/// z = x·y, or z += for a weight's gradient.
struct Size {
  std::string name;
  int64_t M, N, K;
  bool x_by_rows = true, y_by_rows = true, add = false;

  double flops() const {
    return 2.0 * static_cast<double>(M) * static_cast<double>(N) * static_cast<double>(K);
  }
};

std::vector<Size> sizes() {
  std::vector<Size> list;
  for (const int64_t n : {1024, 2048, 4096, 8192}) list.push_back({fmt::format("{0}", n), n, n, n});
  constexpr int64_t kTokens = 16 * 1024, C = 768, V = 50257;
  const auto add_linear = [&](const std::string& name, int64_t in, int64_t out) {
    list.push_back({name + " forward", kTokens, out, in, true, false});
    list.push_back({name + " dx", kTokens, in, out});
    list.push_back({name + " dW", out, in, kTokens, false, true, true});
  };
  add_linear("qkv", C, 3 * C);
  add_linear("out", C, C);
  add_linear("up", C, 4 * C);
  add_linear("down", 4 * C, C);
  add_linear("head", C, V);
  return list;
}

void check_call(cudaError_t result) { check(result == cudaSuccess, "CUDA: {}", cudaGetErrorString(result)); }

/// Products between two events: so many that the GPU, which the first ones keep busy, does not wait
/// for the CPU to launch the rest.
int runs_of(const Size& size) { return std::max(1, static_cast<int>(2e11 / size.flops())); }

Tensor matrix(int64_t rows, int64_t columns, bool by_rows, DType dtype) {
  return by_rows ? randn({rows, columns}, dtype, Device::cuda)
                 : transpose(randn({columns, rows}, dtype, Device::cuda));
}

/// The first and the last elements: whole tiles, and those that the end cuts.
std::vector<double> corners(const Tensor& z) {
  const int64_t rows = std::min<int64_t>(z.size(0), 256), columns = std::min<int64_t>(z.size(1), 256);
  std::vector<double> numbers;
  for (const int64_t row : {int64_t{0}, z.size(0) - rows})
    for (const int64_t column : {int64_t{0}, z.size(1) - columns})
      for (const double x : slice(slice(z, 0, row, row + rows), 1, column, column + columns).values())
        numbers.push_back(x);
  return numbers;
}

/// One row of the table: TFLOP/s of cuBLASLt, and of each step as a share of it.
void measure(const Size& size, DType dtype, double budget, const bench::MarkdownTable& table) {
  const Tensor x = matrix(size.M, size.K, size.x_by_rows, dtype),
               y = matrix(size.K, size.N, size.y_by_rows, dtype);
  const auto product = [&](Tensor& z) { return cuda::product_of(z, x, y, {}, size.add); };
  std::vector<const MatmulStep*> steps;
  std::map<std::string_view, std::vector<double>> times;
  Tensor z = zeros({size.M, size.N}, dtype, Device::cuda);
  for (const MatmulStep& step : cuda::matmul_steps())
    if (step.supports(product(z))) steps.push_back(&step);

  std::vector<double> want;
  // Sums in float32, then one rounding, which may fall to either side.
  const double allowed =
      (8 + std::sqrt(static_cast<double>(size.K))) * epsilon(DType::float32) + epsilon(dtype);
  for (size_t i = steps.size(); i-- > 0;) {
    // From the top: cuBLASLt, where it is, says what is right
    z = zeros({size.M, size.N}, dtype, Device::cuda);
    steps[i]->run(product(z));
    const std::vector<double> got = corners(z);
    if (want.empty()) want = got;
    const double off = distance(got, want, 1e-3);
    check(off <= allowed, "{} {}: {} is off by {:.2g}", size.name, name(dtype), steps[i]->name, off);
  }
  const double end = bench::seconds() + budget;
  for (int round = 0; round < 5 || bench::seconds() < end; ++round)
    for (const MatmulStep* step : steps)
      times[step->name].push_back(bench::gpu_seconds([&] { step->run(product(z)); }, runs_of(size), 1));

  const auto rate = [&](std::string_view step) {
    return times.contains(step) ? size.flops() / bench::median(times[step]) * 1e-12 : 0;
  };
  std::vector<std::string> cells = {std::string(name(dtype)), size.name};
  for (const int64_t n : {size.M, size.N, size.K}) cells.push_back(fmt::format("{}", n));
  cells.push_back(fmt::format("{:.1f}", rate("cublas")));
  for (const MatmulStep& step : cuda::matmul_steps()) {
    if (step.name == "cublas") continue;
    if (rate(step.name) == 0)
      cells.push_back("-");
    else if (rate("cublas") == 0)
      cells.push_back(fmt::format("{:.1f}", rate(step.name)));
    else
      cells.push_back(
          fmt::format("{:.1f} ({:.0f} %)", rate(step.name), 100 * rate(step.name) / rate("cublas")));
  }
  table.row(cells);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Matrix products on a GPU: TFLOP/s of cuBLASLt, and of our steps with their share of it");
  double budget = 0.3;
  std::string only;
  app.add_option("--seconds", budget, "Time for each row");
  app.add_option("--only", only, "Only rows whose name begins with this");
  CLI11_PARSE(app, argc, argv);
  if (!bench::has_gpu()) return 0;
  cudaDeviceProp device;
  check_call(cudaGetDeviceProperties(&device, 0));
  fmt::print(
      "{}; {}\n\n", device.name,
      cuda::cublas_absence().empty() ? cuda::cublas_origin() : "without ratios: " + cuda::cublas_absence());
  std::vector<bench::MarkdownTable::Column> columns = {{"dtype", true, 8}, {"product", true, 13},
                                                       {"M", false, 5},    {"N", false, 5},
                                                       {"K", false, 5},    {"cuBLASLt"}};
  for (const MatmulStep& step : cuda::matmul_steps())
    if (step.name != "cublas") columns.push_back({std::string(step.name), false, 14});
  const bench::MarkdownTable table(columns);
  for (const DType dtype : {DType::bfloat16, DType::float32})
    for (const Size& size : sizes())
      if (size.name.starts_with(only)) measure(size, dtype, budget, table);
}

#else

int main() {
  fmt::print("NOT MEASURED: this build has no CUDA kernels for a GPU (VITRINE_CUDA=on builds them)\n");
}

#endif
