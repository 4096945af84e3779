// A lesson on LASER: where its gradient is larger than that of standard attention, where it is
// smaller, and where the published form fails. docs/laser.md explains it.
//
//   laser_lesson [FILE]    writes the curves of the picture on that page to FILE, as CSV
#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "core/creation.h"
#include "core/files/file.h"
#include "core/random.h"
#include "core/tape.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"

using namespace vitrine;

namespace {

constexpr AttentionRead kReads[] = {AttentionRead::mean, AttentionRead::laser};

double norm_of(const Tensor& x) { return sqrt(sum(square(cast(x, DType::float64)))).item(); }

/// ∂o/∂s₁ of attention over two keys with the scores (difference, 0) and the values (gap, 0).
double two_keys(AttentionRead read, double difference, double gap) {
  AttentionOptions options;
  options.scale = 1, options.read = read;
  const Tensor q = tensor({1}, {1, 1, 1, 1}, DType::float64);
  const Tensor v = tensor({gap, 0}, {1, 1, 2, 1}, DType::float64);
  Tape tape;
  const Tensor k = tape.watch(tensor({difference, 0}, {1, 1, 2, 1}, DType::float64));
  return tape.gradient(attention(q, k, v, options), {k})[0].values()[0];
}

void compare_two_keys() {
  fmt::print("Two keys. The size of ∂o/∂s for scores that differ by Δs and values that differ by Δv.\n\n");
  fmt::print("{:>6}", "Δs");
  for (const char* gap : {"Δv = 0.1", "Δv = 1", "Δv = 10"}) fmt::print("{:>22}", gap);
  fmt::print("\n{:>6}", "");
  for (int i = 0; i < 3; ++i) fmt::print("{:>12}{:>10}", "standard", "LASER");
  fmt::print("\n");
  for (double difference : {-8, -4, -2, 0, 2, 4, 8}) {
    fmt::print("{:>6}", difference);
    for (double gap : {0.1, 1.0, 10.0})
      fmt::print("{:>12.2e}{:>10.2e}", two_keys(AttentionRead::mean, difference, gap),
                 two_keys(AttentionRead::laser, difference, gap));
    fmt::print("\n");
  }
}

/// The norm of the gradient with respect to q, for random queries, keys, values and cotangents.
double query_gradient(AttentionRead read, double scores, double values) {
  manual_seed(1);
  AttentionOptions options;
  options.causal = true, options.read = read, options.scale = scores / 8;  // 8 = √D
  Tape tape;
  const Tensor q = tape.watch(randn({4, 4, 256, 64})), k = randn({4, 4, 256, 64});
  const Tensor v = randn({4, 4, 256, 64}) * values, dy = randn({4, 4, 256, 64});
  return norm_of(tape.gradient({attention(q, k, v, options)}, {q}, {dy})[0]);
}

void compare_random() {
  fmt::print(
      "\nRandom q, k, v and cotangents, causal, 256 keys. LASER's gradient along q, divided by the standard one.\n\n");
  fmt::print("{:>22}", "spread of the values");
  for (const char* scores : {"scores 1", "scores 3", "scores 10"}) fmt::print("{:>12}", scores);
  fmt::print("\n");
  for (double values : {0.01, 0.1, 1.0, 3.0, 10.0}) {
    fmt::print("{:>22}", values);
    for (double scores : {1.0, 3.0, 10.0})
      fmt::print("{:>12.2f}", query_gradient(AttentionRead::laser, scores, values) /
                                  query_gradient(AttentionRead::mean, scores, values));
    fmt::print("\n");
  }
}

/// The published form, causal: m + log(softmax(s)·e^(v − m)), where m is the maximum of each
/// channel.
Tensor published(const Tensor& q, const Tensor& k, const Tensor& v) {
  const Tensor hidden = equal(tril(ones({q.size(2), k.size(2)})), zeros({}));
  const Tensor scores = matmul(q, transpose(k)) / std::sqrt(static_cast<double>(q.size(3)));
  const Tensor weights = softmax(where(hidden, full({}, -INFINITY, q.dtype()), scores));
  const Tensor m = max(detach(v), {-2}, KeepAxes::yes);
  return m + log(matmul(weights, exp(v - m)));
}

Tensor of_library(const Tensor& q, const Tensor& k, const Tensor& v) {
  AttentionOptions options;
  options.causal = true, options.read = AttentionRead::laser;
  return attention(q, k, v, options);
}

struct Result {
  Tensor y, dq;
};

Result run(Tensor (*laser)(const Tensor&, const Tensor&, const Tensor&), const std::vector<Tensor>& x,
           DType dtype) {
  Tape tape;
  const Tensor q = tape.watch(cast(x[0], dtype)), k = cast(x[1], dtype), v = cast(x[2], dtype);
  const Tensor y = laser(q, k, v);
  return {y, tape.gradient({y}, {q}, {cast(x[3], dtype)})[0]};
}

void show_rounding() {
  fmt::print("\nbfloat16, causal, 64 keys. Relative error of the output and of the gradient along q.\n\n");
  fmt::print("{:>22}{:>24}{:>24}\n", "spread of the values", "published: o      dq", "Vitrine: o      dq");
  const auto error = [](const Tensor& x, const Tensor& right) {
    return 100 * norm_of(cast(x, DType::float64) - right) / norm_of(right);
  };
  for (double values : {0.01, 0.1, 1.0, 10.0}) {
    manual_seed(1);
    std::vector<Tensor> x;
    for (double spread : {1.0, 1.0, values, 1.0})
      x.push_back(cast(randn({2, 4, 64, 32}) * spread, DType::bfloat16));
    const Result right = run(of_library, x, DType::float64);
    fmt::print("{:>22}", values);
    for (const auto laser : {published, of_library}) {
      const Result result = run(laser, x, DType::bfloat16);
      fmt::print("{:>14.2f} %{:>6.2f} %", error(result.y, right.y), error(result.dq, right.dq));
    }
    fmt::print("\n");
  }
}

void show_future() {
  fmt::print("\nCausal, float32: the first query sees only the value 0; the next value is X.\n\n");
  fmt::print("{:>22}{:>24}{:>24}\n", "X", "published: o of query 0", "Vitrine: o of query 0");
  for (double future : {1.0, 50.0, 200.0}) {
    const Tensor q = ones({1, 1, 2, 1}), k = ones({1, 1, 2, 1}), v = tensor({0, future}, {1, 1, 2, 1});
    fmt::print("{:>22}{:>24.3g}{:>24.3g}\n", future, published(q, k, v).values()[0] + 0.0,
               of_library(q, k, v).values()[0] + 0.0);
  }
}

void write_curves(const std::string& path) {
  std::string text = "difference,standard gap 1,laser gap 1,standard gap 10,laser gap 10\n";
  for (double difference = -12; difference <= 12; difference += 0.25) {
    text += fmt::format("{}", difference);
    for (double gap : {1.0, 10.0})
      for (AttentionRead read : kReads) text += fmt::format(",{:.6g}", two_keys(read, difference, gap));
    text += '\n';
  }
  const std::string_view parts[] = {text};
  write_file("laser_lesson", path, parts);
}

}  // namespace

int main(int argc, char** argv) {
  compare_two_keys();
  compare_random();
  show_rounding();
  show_future();
  if (argc > 1) write_curves(argv[1]);
  return std::fflush(stdout) == 0 ? 0 : 1;  // 1: the output could not be printed completely
}
