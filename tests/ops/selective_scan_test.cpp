#include "ops/selective_scan.h"

#include <cmath>
#include <cstring>

#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/cuda/device.h"
#include "tests/memory_use.h"
#include "tests/ops/reference.h"

namespace vitrine::test {
namespace {

/// u, delta, a, b, c, skip and a first state.
std::vector<Tensor> inputs(int64_t time, int64_t channels, int64_t states, DType dtype = DType::float64) {
  const Shape u{2, time, channels}, b{2, time, states};
  return {random(u, 1, dtype),
          random(u, 2, dtype, 0.01, 0.5),
          random({channels, states}, 3, dtype, -2, -0.1),
          random(b, 4, dtype),
          random(b, 5, dtype),
          random({channels}, 6, dtype),
          random({2, channels, states}, 7, dtype)};
}

using SelectiveScan = SelectiveScanStates (*)(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                              const Tensor&, const SelectiveScanOptions&);

/// Both outputs, and the gradients of all inputs.
std::vector<Tensor> run(SelectiveScan scan, const std::vector<Tensor>& inputs, Device device = Device::cpu) {
  Tape tape;
  std::vector<Tensor> x;
  for (const Tensor& input : inputs) x.push_back(tape.watch(to(input, device)));
  const SelectiveScanStates s = scan(x[0], x[1], x[2], x[3], x[4], {.skip = x[5], .state = x[6]});
  const Tensor dy = to(random(s.y.shape(), 8, s.y.dtype()), device),
               dstate = to(random(s.state.shape(), 9, s.state.dtype()), device);
  std::vector<Tensor> all = tape.gradient({s.y, s.state}, x, {dy, dstate});
  all.push_back(s.y), all.push_back(s.state);
  return all;
}

TEST_CASE("the kernels of selective_scan equal its definition across the ends of chunks and groups") {
  for (const int64_t time : {1, 63, 64, 65, 130})
    for (const int64_t channels : {3, 70}) {
      INFO("T ", time, ", D ", channels);
      const auto x = inputs(time, channels, 3);
      const auto got = run(selective_scan, x), want = run(define::selective_scan, x);
      for (size_t i = 0; i < got.size(); ++i) {
        INFO("result ", i);
        CHECK(distance(got[i], want[i]) < 1e-13);
      }
    }
}

TEST_CASE("the kernels of CUDA equal those of the CPU in selective_scan") {
  if (!has_gpu()) return;
  struct Size {
    int64_t time, channels, states;
  };
  // one thread for a channel, several, and the most with more states each
  for (const Size& s : {Size{66, 70, 2}, {130, 3, 16}, {7, 65, 5}, {9, 2, 40}, {5, 2, 200}}) {
    const auto x = inputs(s.time, s.channels, s.states);
    const auto got = run(selective_scan, x, Device::cuda), want = run(selective_scan, x);
    for (size_t i = 0; i < got.size(); ++i) {
      INFO("T ", s.time, ", D ", s.channels, ", N ", s.states, ", result ", i);
      CHECK(distance(to(got[i], Device::cpu), want[i]) < 1e-13);
    }
  }
}

TEST_CASE("with one constant state a selective scan is a moving average") {
  constexpr double kKeep = 0.9;
  const Tensor u = random({1, 80, 1}, 1), one = ones_like(u);
  const Tensor a = full({1, 1}, std::log(kKeep), DType::float64);
  const SelectiveScanStates s = selective_scan(u, one, a, one, one);
  double h = 0;
  const auto values = u.values(), ys = s.y.values();
  for (size_t t = 0; t < values.size(); ++t) {
    h = kKeep * h + values[t];
    CHECK(std::abs(ys[t] - h) < 1e-13);
  }
  CHECK(std::abs(s.state.item() - h) < 1e-13);
}

TEST_CASE("a selective scan in two calls joined by the state has the bits of one call") {
  const auto x = inputs(130, 70, 4, DType::float32);
  const auto of = [&](int64_t begin, int64_t end, const Tensor& state) {
    const auto part = [&](size_t i) { return slice(x[i], 1, begin, end); };
    return selective_scan(part(0), part(1), x[2], part(3), part(4), {.skip = x[5], .state = state});
  };
  const SelectiveScanStates whole = of(0, 130, x[6]);
  for (const int64_t at : {1, 37, 64, 129}) {
    INFO("joined at ", at);
    const SelectiveScanStates first = of(0, at, x[6]), second = of(at, 130, first.state);
    CHECK(same_bits(second.state, whole.state));
    CHECK(same_bits(concat({first.y, second.y}, 1), whole.y));
  }
}

TEST_CASE("a selective scan has the same bits on any number of threads") {
  const auto x = inputs(130, 200, 5, DType::float32);
  CHECK(same_on_any_threads([&] { return run(selective_scan, x); }));
}

TEST_CASE("a strong decay leaves the present position alone, and all gradients finite") {
  auto x = inputs(130, 3, 2, DType::float32);
  x[2] = full_like(x[2], -1e6);
  const Tensor bc = unsqueeze(sum(x[3] * x[4], {-1}), -1);
  const Tensor want = x[1] * x[0] * bc + x[5] * x[0];
  CHECK(distance(selective_scan(x[0], x[1], x[2], x[3], x[4], {.skip = x[5], .state = x[6]}).y, want) < 1e-6);
  for (const Tensor& result : run(selective_scan, x)) CHECK(all(is_finite(result)).item() == 1);
}

TEST_CASE("a selective scan of no positions returns its state, and the gradient of it") {
  const auto x = inputs(0, 3, 2), results = run(selective_scan, x);
  CHECK(results[7].shape() == Shape{2, 0, 3});
  CHECK(same_bits(results[8], x[6]));
  CHECK(same_bits(results[6], random({2, 3, 2}, 9)));
}

TEST_CASE("memory of a selective scan grows as the sequence, not as the sequence times the states") {
  const auto peak = [&](int64_t time) {
    const auto x = inputs(time, 64, 16, DType::float32);
    return static_cast<double>(memory_use([&] { run(selective_scan, x); }).peak);
  };
  const double small = peak(512), exponent = std::log(peak(4096) / small) / std::log(8.0);
  CHECK(exponent <= 1.05);
  CHECK(peak(4096) < 2.0 * 4096 * 64 * 16 * sizeof(float));  // all states of both rows
}

TEST_CASE("errors of selective_scan name what does not fit") {
  const auto x = inputs(5, 3, 2);
  const auto error = [](auto... in) { return error_of([&] { selective_scan(in...); }); };
  CHECK(error(x[2], x[1], x[2], x[3], x[4]) == "selective_scan: u is [3, 2], wanted [B, T, D]");
  CHECK(error(x[0], x[3], x[2], x[3], x[4]) == "selective_scan: delta is [2, 5, 2], wanted [2, 5, 3]");
  CHECK(error(x[0], x[1], x[5], x[3], x[4]) == "selective_scan: a is [3], wanted [3, N]");
  CHECK(error(x[0], x[1], x[2], x[0], x[4]) == "selective_scan: b is [2, 5, 3], wanted [2, 5, 2]");
  CHECK(error(x[0], x[1], x[2], x[3], x[0]) == "selective_scan: c is [2, 5, 3], wanted [2, 5, 2]");
  CHECK(error(x[0], x[1], x[2], x[3], x[4], SelectiveScanOptions{.skip = x[2]}) ==
        "selective_scan: skip is [3, 2], wanted [3]");
  CHECK(error(x[0], x[1], x[2], x[3], x[4], SelectiveScanOptions{.state = x[2]}) ==
        "selective_scan: state is [3, 2], wanted [2, 3, 2]");
  CHECK(error(empty({2, 5, 3}, DType::int64), x[1], x[2], x[3], x[4]).find("u is int64") !=
        std::string::npos);
}

}  // namespace
}  // namespace vitrine::test
