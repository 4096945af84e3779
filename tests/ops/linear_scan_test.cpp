#include "ops/linear_scan.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/cuda/device.h"
#include "tests/memory_use.h"
#include "tests/ops/reference.h"

namespace vitrine::test {
namespace {

enum class Decay { none, scalar, vector };

/// q, k, v and a first state, then log decays and the two erasing vectors where a form has them.
struct Form {
  Decay decay;
  bool erases;

  std::vector<Tensor> inputs(int64_t time, int64_t dk, int64_t dv, DType dtype = DType::float64) const {
    const Shape rows{2, 2, time, dk};
    std::vector<Tensor> x = {random(rows, 1, dtype), random(rows, 2, dtype),
                             random({2, 2, time, dv}, 3, dtype), random({2, 2, dk, dv}, 4, dtype)};
    if (decay != Decay::none)
      x.push_back(random(decay == Decay::scalar ? Shape{2, 2, time} : rows, 5, dtype, -0.5, 0));
    // Small, so that the state does not grow by what is added to it.
    const double size = 1.0 / static_cast<double>(dk);
    if (erases) x.push_back(random(rows, 6, dtype, -size, size)), x.push_back(random(rows, 7, dtype));
    return x;
  }
  LinearScanOptions options(const std::vector<Tensor>& x) const {
    LinearScanOptions o{.state = x[3], .scale = 0.5};
    size_t next = 4;
    if (decay != Decay::none) o.log_decay = x[next++];
    if (erases) o.erase_to = x[next], o.erase_from = x[next + 1];
    return o;
  }
};

const std::vector<Form> kForms = {{Decay::none, false}, {Decay::scalar, false}, {Decay::vector, false},
                                  {Decay::none, true},  {Decay::scalar, true},  {Decay::vector, true}};

using LinearScan = LinearScanStates (*)(const Tensor&, const Tensor&, const Tensor&,
                                        const LinearScanOptions&);

/// Both outputs, and the gradients of all inputs.
std::vector<Tensor> run(LinearScan scan, const Form& form, const std::vector<Tensor>& inputs,
                        Device device = Device::cpu) {
  Tape tape;
  std::vector<Tensor> x, all;
  for (const Tensor& input : inputs) x.push_back(tape.watch(to(input, device)));
  const LinearScanStates s = scan(x[0], x[1], x[2], form.options(x));
  const Tensor dy = to(random(s.o.shape(), 8, s.o.dtype()), device),
               dstate = to(random(s.state.shape(), 9, s.state.dtype()), device);
  all = tape.gradient({s.o, s.state}, x, {dy, dstate});
  all.push_back(s.o), all.push_back(s.state);
  return all;
}

Tensor part(const Tensor& x, int64_t begin, int64_t end) { return slice(x, 2, begin, end); }

TEST_CASE("the kernels equal the definition across the ends of chunks, strips and tiles") {
  for (const Form& form : kForms)
    for (const int64_t time : {1, 63, 64, 65, 130})
      for (const int64_t dk : {3, 35}) {
        const int64_t dv = 2 * dk;
        INFO("decay ", static_cast<int>(form.decay), ", erases ", form.erases, ", T ", time, ", dk ", dk);
        const auto x = form.inputs(time, dk, dv);
        const auto got = run(linear_scan, form, x), want = run(define::linear_scan, form, x);
        for (size_t i = 0; i < got.size(); ++i) {
          INFO("result ", i);
          CHECK(distance(got[i], want[i]) < 1e-13);
        }
      }
}

TEST_CASE("the kernels of CUDA equal those of the CPU across the ends of chunks, tiles and lines") {
  if (!has_gpu()) return;
  struct Size {
    int64_t time, dk, dv;
  };
  for (const Form& form : kForms)
    // one thread for a line, several, all of a warp, and a warp with more elements each
    for (const Size& s : {Size{1, 3, 1}, {66, 34, 5}, {130, 9, 34}, {17, 256, 3}, {9, 4, 300}, {7, 600, 2}}) {
      const auto x = form.inputs(s.time, s.dk, s.dv);
      const auto got = run(linear_scan, form, x, Device::cuda), want = run(linear_scan, form, x);
      for (size_t i = 0; i < got.size(); ++i) {
        INFO("decay ", static_cast<int>(form.decay), ", erases ", form.erases, ", T ", s.time, ", dk ", s.dk,
             ", dv ", s.dv, ", result ", i);
        CHECK(distance(to(got[i], Device::cpu), want[i]) < 1e-13);
      }
    }
}

TEST_CASE("a state too large for a GPU is an error that says how large it may be") {
  if (!has_gpu()) return;
  const Tensor q = zeros({1, 1, 1, 1025}, DType::float32, Device::cuda), v = slice(q, 3, 0, 1);
  CHECK_THROWS_WITH(
      linear_scan(q, q, v),
      "linear_scan: dk is too large for a GPU: 1025 elements, where 32 threads hold 1024 at most");
}

TEST_CASE("without erasing, a scan is attention with the decay between two positions as weight") {
  const Form form = {Decay::scalar, false};
  const auto x = form.inputs(70, 4, 6);
  const Tensor total = cumsum(x[4], 2);  // G
  const Tensor between = unsqueeze(total, -1) - unsqueeze(total, -2);
  const Tensor weights = tril(exp(minimum(between, 0.0)) * matmul(x[0], transpose(x[1])));
  const Tensor first = unsqueeze(exp(total), -1) * matmul(x[0], x[3]);
  const Tensor want = (matmul(weights, x[2]) + first) * 0.5;
  CHECK(distance(linear_scan(x[0], x[1], x[2], form.options(x)).o, want) < 1e-13);
}

TEST_CASE("decays of one number per head expand, and equal the same number per row") {
  const auto x = Form{Decay::none, false}.inputs(5, 3, 2);
  const Tensor g = random({1, 2, 1}, 5, DType::float64, -1, 0);
  const LinearScanStates want = linear_scan(x[0], x[1], x[2], {.log_decay = expand(g, {2, 2, 5})});
  CHECK(same_bits(linear_scan(x[0], x[1], x[2], {.log_decay = g}).o, want.o));
  const Tensor of_rows = reshape(g, {1, 2, 1, 1});
  CHECK(same_bits(linear_scan(x[0], x[1], x[2], {.log_decay = of_rows}).o, want.o));
  CHECK(gradient_error([&](const auto& in) { return linear_scan(x[0], x[1], x[2], {.log_decay = in[0]}).o; },
                       {g}, 1) < 1e-9);
}

TEST_CASE("a decay of e^−10000 clears the state; nothing overflows or becomes NaN, in any direction") {
  for (const Decay decay : {Decay::scalar, Decay::vector})
    for (const double log : {-1e4, -std::numeric_limits<double>::infinity()}) {
      const Form form = {decay, false};
      auto x = form.inputs(130, 4, 6, DType::float32);
      x[4] = full_like(x[4], log);
      // Each position sees itself alone.
      const Tensor want = unsqueeze(sum(x[0] * x[1], {-1}) * 0.5, -1) * x[2];
      CHECK(distance(linear_scan(x[0], x[1], x[2], form.options(x)).o, want) < 1e-6);
      for (const Tensor& result : run(linear_scan, form, x)) CHECK(all(is_finite(result)).item() == 1);
    }
}

TEST_CASE("a scan in two calls joined by the state has the bits of one call") {
  for (const Form& form : kForms) {
    const auto x = form.inputs(130, 9, 34, DType::float32);
    const auto of = [&](int64_t begin, int64_t end, const Tensor& state) {
      LinearScanOptions o = form.options(x);
      o.state = state;
      for (Tensor* t : {&o.log_decay, &o.erase_to, &o.erase_from})
        if (t->defined()) *t = part(*t, begin, end);
      return linear_scan(part(x[0], begin, end), part(x[1], begin, end), part(x[2], begin, end), o);
    };
    const LinearScanStates whole = of(0, 130, x[3]);
    for (const int64_t at : {1, 37, 64, 129}) {
      INFO("decay ", static_cast<int>(form.decay), ", erases ", form.erases, ", joined at ", at);
      const LinearScanStates first = of(0, at, x[3]), second = of(at, 130, first.state);
      CHECK(same_bits(second.state, whole.state));
      CHECK(same_bits(concat({first.o, second.o}, 2), whole.o));
    }
  }
}

TEST_CASE("a linear scan has the same bits on any number of threads") {
  for (const Form& form : kForms) {
    const auto x = form.inputs(130, 40, 70, DType::float32);
    CHECK(same_on_any_threads([&] { return run(linear_scan, form, x); }));
  }
}

TEST_CASE("the delta rule overwrites what a key has stored; without erasing, values add up") {
  const Tensor key = l2_normalize(random({1, 1, 1, 5}, 1)), k = expand(key, {1, 1, 2, 5});
  const Tensor v = random({1, 1, 2, 3}, 2);
  CHECK(distance(part(linear_scan(k, k, v).o, 1, 2), sum(v, {2}, KeepAxes::yes)) < 1e-14);
  const LinearScanStates s = linear_scan(k, k, v, {.erase_to = -k, .erase_from = k});
  CHECK(distance(part(s.o, 1, 2), part(v, 1, 2)) < 1e-14);
}

TEST_CASE("a scan of no positions returns its state, and the gradient of it") {
  for (const Form& form : kForms) {
    const auto x = form.inputs(0, 3, 2);
    const auto results = run(linear_scan, form, x);
    CHECK(results[results.size() - 2].shape() == Shape{2, 2, 0, 2});
    CHECK(same_bits(results.back(), x[3]));
    CHECK(same_bits(results[3], random({2, 2, 3, 2}, 9)));
  }
}

TEST_CASE("the state of 16-bit vectors is float32, and is not rounded from call to call") {
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    const Tensor k = ones({1, 1, 600, 1}, dtype), v = ones({1, 1, 600, 1}, dtype);
    const LinearScanStates s = linear_scan(k, k, v);
    CHECK(s.o.dtype() == dtype);
    CHECK(s.state.dtype() == DType::float32);
    CHECK(s.state.item() == 600);  // bfloat16 counts to 256
  }
}

TEST_CASE("memory of forward and backward grows as the sequence, with all kinds of terms") {
  for (const Form& form : {kForms[0], kForms[5]}) {
    const auto peak = [&](int64_t time) {
      const auto x = form.inputs(time, 16, 16, DType::float32);
      return static_cast<double>(memory_use([&] { run(linear_scan, form, x); }).peak);
    };
    const double small = peak(1024), exponent = std::log(peak(16384) / small) / std::log(16.0);
    CHECK(exponent <= 1.05);
    CHECK(exponent > 0.8);
    // Inputs and outputs are [2, 2, 1024, 16] each; there are up to six inputs.
    CHECK(small <= 24.0 * 4 * 1024 * 16 * sizeof(float));
  }
}

TEST_CASE("heads that are views of a projection are read in place") {
  const Tensor projected = random({1, 512, 2, 64}, 1, DType::float32), x = permute(projected, {0, 2, 1, 3});
  linear_scan(x, x, x);  // threads now have their buffers
  // y and two states, but no copy of x, which has the size of y
  const size_t used = memory_use([&] { linear_scan(x, x, x); }).peak;
  CHECK(used < 2 * static_cast<size_t>(x.numel()) * sizeof(float));
  const Tensor copy = contiguous(x);
  CHECK(same_bits(linear_scan(x, x, x).o, linear_scan(copy, copy, copy).o));
}

TEST_CASE("errors of linear_scan name what does not fit") {
  const auto x = Form{Decay::none, false}.inputs(5, 3, 2);
  const auto error = [&](const LinearScanOptions& o) {
    return error_of([&] { linear_scan(x[0], x[1], x[2], o); });
  };
  CHECK(error_of([&] { linear_scan(x[0], x[2], x[2]); }) ==
        "linear_scan: k is [2, 2, 5, 2], wanted [2, 2, 5, 3]");
  CHECK(error_of([&] { linear_scan(x[0], x[1], x[3]); }) ==
        "linear_scan: v is [2, 2, 3, 2], wanted [2, 2, 5, dv]");
  CHECK(error_of([&] { linear_scan(select(x[0], 0, 0), x[1], x[2]); }) ==
        "linear_scan: q is [2, 5, 3], wanted [B, H, T, dk]");
  CHECK(error({.log_decay = empty({2, 2, 4})}) ==
        "linear_scan: log_decay is [2, 2, 4], wanted [2, 2, 5] or [2, 2, 5, 3], or 1 in place of sizes");
  CHECK(error({.erase_to = x[0]}) == "linear_scan: erase_to is given without erase_from");
  CHECK(error({.erase_from = x[0]}) == "linear_scan: erase_from is given without erase_to");
  CHECK(error({.erase_to = x[0], .erase_from = x[2]}) ==
        "linear_scan: erase_from is [2, 2, 5, 2], wanted [2, 2, 5, 3]");
  CHECK(error({.state = x[2]}) == "linear_scan: state is [2, 2, 5, 2], wanted [2, 2, 3, 2]");
  CHECK(error({.log_decay = empty({1, 1, 1}, DType::int64)}).find("log_decay is int64") != std::string::npos);
}

}  // namespace
}  // namespace vitrine::test
