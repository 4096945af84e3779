// Memory-bound kernels of a GPU: the bytes per second that each kernel has to read and write, as a
// share of the bandwidth of a copy in the same run. If tensors are smaller than the cache, several
// tensors are used in turn, so that every byte comes from memory. Before the measurement, the first
// and last rows of each size are compared with the CPU's results.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/measure/gpu.h"
#include "bench/measure/markdown.h"
#include "core/creation.h"
#include "core/gradcheck/differences.h"
#include "core/random.h"
#include "core/tape.h"
#include "core/tensor_kernels.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/kernels.h"
#include "ops/loss.h"
#include "ops/norm.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "optim/optimizers.h"

using namespace vitrine;

namespace {

constexpr Device kGpu = Device::cuda;

/// Tensors of one shape that take turns, so that none is still in the cache when its turn comes.
class Turns {
 public:
  Turns(const Shape& shape, DType dtype, int64_t together) {
    const int64_t bytes = std::max<int64_t>(1, numel(shape) * static_cast<int64_t>(size_of(dtype)));
    for (int64_t i = 0; i < std::max<int64_t>(1, together / bytes); ++i) {
      tensors_.push_back(empty(shape, dtype, kGpu));
      VITRINE_RUN(random_normal, tensors_.back(), Draw{1, static_cast<uint64_t>(i) << 32}, 0.0, 1.0);
    }
  }
  Tensor& next() { return tensors_[at_++ % tensors_.size()]; }

 private:
  std::vector<Tensor> tensors_;
  size_t at_ = 0;
};

using Function = std::function<Tensor(const Tensor&)>;

/// The value of f and its gradient, where x lies.
std::array<Tensor, 2> differentiate(const Function& f, const Tensor& x, const Tensor& dy) {
  Tape tape;
  tape.watch(x);
  const Tensor y = f(x);
  return {y, tape.gradient({y}, {x}, {dy})[0]};
}

/// Fails unless f and its gradient at this size, row by row, are in the first and the last rows the
/// CPU's in float64.
void check_rows(const char* what, const Tensor& x, const Function& f) {
  const int64_t rows = x.size(0), some = std::min<int64_t>(rows, 2);
  const Tensor one = f(slice(x, 0, 0, 1));  // whose dtype need not be x's
  const Tensor dy = randn(one.numel() == 1 ? Shape{rows} : x.shape(), one.dtype(), kGpu);
  const auto got = differentiate(f, x, dy);
  for (const int64_t first : {int64_t{0}, rows - some}) {
    const auto part = [&](const Tensor& t) {
      return copy_as(to(slice(t, 0, first, first + some), Device::cpu), DType::float64);
    };
    const auto want = differentiate(f, part(x), part(dy));
    for (size_t i = 0; i < 2; ++i) {
      const double off = distance(part(got[i]).values(), want[i].values(), 0);
      check(off <= 3 * epsilon(x.dtype()) + 1e-5, "{} of {}: {} is off by {:.2g}", what, describe(x),
            i == 0 ? "the value" : "the gradient", off);
    }
  }
}

/// All that are timed below, by their ops, but for AdamW, the norm of a sum and what norms add up
/// for their weights, sums over columns: those tests/cuda compares.
void check_kernels(const Tensor& x) {
  const std::pair<const char*, Function> functions[] = {
      {"copy", [](const Tensor& t) { return clone(t); }},
      {"exp", [](const Tensor& t) { return exp(t); }},
      {"gelu_tanh", [](const Tensor& t) { return gelu_tanh(t); }},
      {"add", [](const Tensor& t) { return t + t; }},
      {"softmax", [](const Tensor& t) { return softmax(t); }},
      {"log_softmax", [](const Tensor& t) { return log_softmax(t); }},
      {"layer_norm", [](const Tensor& t) { return layer_norm(t); }},
      {"rms_norm", [](const Tensor& t) { return rms_norm(t); }},
      {"cross_entropy", [](const Tensor& t) {
         return cross_entropy(t, full({t.size(0)}, 1, DType::int64, t.device()),
                              {.reduction = Reduction::none});
       }}};
  for (const auto& [what, f] : functions) check_rows(what, x, f);
}

class Table {
 public:
  Table(int64_t rows, int64_t columns, DType dtype, int64_t together, int repeats)
      : rows_(rows),
        columns_(columns),
        dtype_(dtype),
        together_(together),
        repeats_(repeats),
        x_({rows, columns}, dtype, together),
        y_({rows, columns}, dtype, together),
        bytes_(static_cast<double>(rows * columns) * static_cast<double>(size_of(dtype))) {
    copy_ = 2 * bytes_ / time([&] { VITRINE_RUN_ON(kGpu, transfer, y_.next(), x_.next(), false); });
    fmt::print("\n{} [{}, {}], {:.0f} MiB; a copy by the driver moves {:.0f} GB/s\n\n", name(dtype), rows,
               columns, bytes_ / (1 << 20), copy_ * 1e-9);
    printed_.emplace(std::vector<bench::MarkdownTable::Column>{
        {"kernel", true, 26}, {"microseconds"}, {"GB/s", false, 6}, {"share of copy"}});
  }

  void elementwise() {
    row("copy", 2, [&] { VITRINE_RUN(copy, y_.next(), x_.next()); });
    row("exp", 2, [&] { VITRINE_RUN(unary, y_.next(), x_.next(), Unary::exp, 0.0, 0.0); });
    row("gelu_tanh", 2, [&] { VITRINE_RUN(unary, y_.next(), x_.next(), Unary::gelu_tanh, 0.0, 0.0); });
    Turns z({rows_, columns_}, dtype_, together_);
    row("add", 3, [&] { VITRINE_RUN(binary, z.next(), x_.next(), y_.next(), Binary::add); });
  }

  void softmax() {
    row("softmax", 2, [&] { VITRINE_RUN(softmax, y_.next(), x_.next()); });
    Turns dx({rows_, columns_}, dtype_, together_);
    row("softmax backward", 3, [&] { VITRINE_RUN(softmax_backward, dx.next(), x_.next(), y_.next()); });
    row("log_softmax", 2, [&] { VITRINE_RUN(log_softmax, y_.next(), x_.next()); });
  }

  void norms() {
    const DType statistics = accumulation_dtype(dtype_);
    Tensor weight = full({columns_}, 1, statistics, kGpu), bias = full({columns_}, 0, statistics, kGpu);
    Tensor mean = empty({rows_}, statistics, kGpu), rstd = empty({rows_}, statistics, kGpu);
    Tensor dweight = empty_like(weight), dbias = empty_like(bias), none;
    row("layer_norm", 2,
        [&] { VITRINE_RUN(layer_norm, y_.next(), mean, rstd, x_.next(), weight, bias, 1e-5); });
    Turns dx({rows_, columns_}, dtype_, together_);
    row("layer_norm backward", 3, [&] {
      VITRINE_RUN(norm_backward, dx.next(), dweight, dbias, y_.next(), none, x_.next(), mean, rstd, weight);
    });
    Turns sum({rows_, columns_}, dtype_, together_);
    row("add and layer_norm", 4, [&] {
      VITRINE_RUN(add_norm, sum.next(), y_.next(), mean, rstd, x_.next(), dx.next(), weight, bias, 1e-5);
    });
    row("rms_norm", 2, [&] { VITRINE_RUN(rms_norm, y_.next(), rstd, x_.next(), weight, 1e-5); });
    row("rms_norm backward", 3, [&] {
      VITRINE_RUN(norm_backward, dx.next(), dweight, none, y_.next(), none, x_.next(), none, rstd, weight);
    });
  }

  void cross_entropy() {
    const DType statistics = accumulation_dtype(dtype_);
    Tensor losses = empty({rows_}, statistics, kGpu), shift = empty_like(losses), total = empty_like(losses);
    const Tensor targets = full({rows_}, 1, DType::int64, kGpu);
    row("cross_entropy", 1,
        [&] { VITRINE_RUN(cross_entropy, losses, shift, total, x_.next(), targets, -100, 0.0); });
    row("cross_entropy backward", 2, [&] {
      VITRINE_RUN(cross_entropy_backward, y_.next(), losses, x_.next(), targets, shift, total, -100, 0.0);
    });
  }

  /// x, m and v are read and written in float32, g is read, and a copy in 16 bits, if there is one,
  /// written.
  void adamw() {
    Parameter parameter(copy_as(x_.next(), DType::float32));
    parameter.to(dtype_);
    parameter.master().set_grad(zeros_like(parameter.master()));
    optim::Adam optimizer({parameter}, {.lr = 1e-4, .weight_decay = 0.1, .decay = optim::Decay::decoupled});
    const double size = static_cast<double>(size_of(dtype_)), copied = is_low_precision(dtype_) ? size : 0;
    row("AdamW", (7 * 4 + copied) / size, [&] { optimizer.step(); });
  }

 private:
  double time(const std::function<void()>& run) const { return bench::gpu_seconds(run, 10, repeats_); }

  /// `passes`: how many tensors of the table's size are read or written.
  void row(const char* kernel, double passes, const std::function<void()>& run) const {
    const double t = time(run), speed = passes * bytes_ / t;
    printed_->row({kernel, fmt::format("{:.1f}", t * 1e6), fmt::format("{:.0f}", speed * 1e-9),
                   fmt::format("{:.0f}%", 100 * speed / copy_)});
  }

  int64_t rows_, columns_;
  DType dtype_;
  int64_t together_;
  int repeats_;
  Turns x_, y_;
  double bytes_, copy_ = 0;
  std::optional<bench::MarkdownTable> printed_;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Kernels that memory bounds, as shares of a GPU's copy bandwidth");
  int64_t mib = 256, together = 256;
  int repeats = 9;
  app.add_option("--mib", mib, "size of a tensor")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--together", together, "MiB of tensors that take turns: several times the GPU's cache")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--repeats", repeats, "measurements, of which the median counts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (!bench::has_gpu()) return 0;
  for (const DType dtype : {DType::float32, DType::bfloat16})
    for (const int64_t columns : {768, 4096, 50257}) {
      const int64_t rows =
          std::max<int64_t>(1, (mib << 20) / (columns * static_cast<int64_t>(size_of(dtype))));
      check_kernels(randn({rows, columns}, dtype, kGpu));
      Table table(rows, columns, dtype, together << 20, repeats);
      table.elementwise();
      table.softmax();
      table.norms();
      table.cross_entropy();
      table.adamw();
    }
}
