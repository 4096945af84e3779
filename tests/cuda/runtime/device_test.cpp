// A library with CUDA kernels also works without a GPU.
#include <doctest/doctest.h>

#if VITRINE_CUDA_KERNELS

#include <string>

#include "core/creation.h"
#include "core/error.h"
#include "core/memory/allocator.h"
#include "core/tape.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "tests/cuda/device.h"

using namespace vitrine;
using test::told_by;

namespace {

constexpr const char* kAsks = "somebody asks for a GPU again and again";
constexpr const char* kMisreads = "somebody reads an element that there is not";
constexpr const char* kDoesWithoutCache = "somebody works without the cache of memory";
constexpr const char* kMultiplies = "somebody multiplies matrices";
constexpr const char* kAttends = "somebody attends";

}  // namespace

TEST_CASE(kAsks* doctest::skip()) {
  for (int i = 0; i < 3; ++i) {
    try {
      empty({1}, DType::float32, Device::cuda);
    } catch (const Error&) {
    }
  }
  CHECK((ones({2}) + 1).values() == std::vector<double>{2, 2});
}

TEST_CASE(kMultiplies* doctest::skip()) {
  const Tensor x = ones({4, 5}, DType::float32, Device::cuda), y = ones({5, 3}, DType::float32, Device::cuda);
  try {
    CHECK(matmul(x, y).values() == std::vector<double>(12, 5));
  } catch (const Error& e) {
    fmt::print(stderr, "{}\n", e.what());
  }
}

TEST_CASE(kAttends* doctest::skip()) {
  const auto some = [](const Shape& shape) { return ones(shape, DType::float32, Device::cuda); };
  const Tensor q = some({1, 2, 3, 4}), k = some({1, 1, 5, 4}), v = some({1, 1, 5, 4});
  try {
    Tape tape;
    for (const Tensor& x : {q, k, v}) tape.watch(x);
    tape.gradient(sum(attention(q, k, v, {})), {q, k, v});
  } catch (const Error& e) {
    fmt::print(stderr, "{}\n", e.what());
  }
}

TEST_CASE(kDoesWithoutCache* doctest::skip()) {
  const test::Caching caching;
  try {
    const auto some = [](const Shape& shape) { return ones(shape, DType::float32, Device::cuda); };
    const Tensor q = some({1, 2, 3, 4}), k = some({1, 1, 5, 4}), v = some({1, 1, 5, 4}), none = some({0, 4});
    Tape tape;
    for (const Tensor& x : {q, k, v, none}) tape.watch(x);
    tape.backward(sum(attention(q, k, v, {})) + sum(exp(none)));
    const auto statistics = memory::statistics(Device::cuda);
    fmt::print(stderr, "{} tensors cached", statistics.reserved > statistics.now + (1 << 20) ? "some" : "no");
  } catch (const Error& e) {
    fmt::print(stderr, "{}\n", e.what());
  }
}

TEST_CASE(kMisreads* doctest::skip()) {
  const Tensor x = ones({3}, DType::float32, Device::cuda), index = full({2}, 7, DType::int64, Device::cuda);
  const auto told = [](const char* where, auto&& f) {
    try {
      f();
      return false;
    } catch (const Error& e) {
      fmt::print(stderr, "{}: {}\n", where, e.what());
      return true;
    }
  };
  Tensor y;
  if (!told("at the op", [&] { y = index_select(x, 0, index); }))
    told("at the copy", [&] { to(y, Device::cpu); });
}

TEST_CASE("with VITRINE_CUDA_SYNC=1 each kernel is waited for, and an error is told where it arose") {
  // Not a skip: what is tested here without a GPU stands below
  if (!test::why_no_gpu().empty()) return;
  const std::string what = "index_select: index has 7 at position 0";
  CHECK(told_by(kMisreads).starts_with("at the copy: " + what));
  CHECK(told_by(kMisreads, "VITRINE_CUDA_SYNC=1").starts_with("at the op: " + what));
}

TEST_CASE("with VITRINE_CUDA_CACHE=0 each tensor has memory of its own, also one without elements") {
  if (!test::why_no_gpu().empty()) return;
  CHECK(told_by(kDoesWithoutCache, "VITRINE_CUDA_CACHE=0") == "no tensors cached");
#ifndef VITRINE_SANITIZED
  CHECK(told_by(kDoesWithoutCache) == "some tensors cached");
#endif
}

TEST_CASE("VITRINE_CUDA_MATMUL chooses the product") {
  if (!test::why_no_gpu().empty()) return;
  const auto told = [](const std::string& step) {
    return told_by(kMultiplies, "VITRINE_EMULATOR_COUNTS=1 VITRINE_CUDA_MATMUL=" + step);
  };
  CHECK(told("fast").starts_with("VITRINE_CUDA_MATMUL is fast: wanted auto or one of naive, tiled, "));
#if VITRINE_CUDA_EMULATED
  CHECK(told("naive").find("matmul_naive") != std::string::npos);
  CHECK(told("tiled").find("matmul_tiled") != std::string::npos);
  CHECK(told("tiled").find("matmul_naive") == std::string::npos);
#endif
}

TEST_CASE("VITRINE_CUDA_ATTENTION chooses the step of attention, forward and backward") {
  if (!test::why_no_gpu().empty()) return;
  const auto told = [](const std::string& step) {
    return told_by(kAttends, "VITRINE_EMULATOR_COUNTS=1 VITRINE_CUDA_ATTENTION=" + step);
  };
  CHECK(told("fast").starts_with(
      "VITRINE_CUDA_ATTENTION is fast: wanted auto or one of naive, tiled, tensor_core, hopper"));
#if VITRINE_CUDA_EMULATED
  for (const char* kernel : {"attention_naive_read", "attention_naive_key_gradients"}) {
    CHECK(told("naive").find(kernel) != std::string::npos);
    CHECK(told("tiled").find(kernel) == std::string::npos);
  }
  for (const char* kernel : {"attention_kernel", "key_gradients_kernel"}) {
    CHECK(told("tiled").find(kernel) != std::string::npos);
    CHECK(told("naive").find(kernel) == std::string::npos);
  }
#endif
}

TEST_CASE("where there is no GPU it is said once, and what runs, runs on the CPU") {
  const std::string told = told_by(kAsks);
  if (test::why_no_gpu().empty()) {
    CHECK(told == "");
  } else {
    CHECK(told.starts_with("vitrine: there is no GPU that CUDA can use here ("));
    CHECK(told.ends_with("): what runs, runs on the CPU\n"));
    CHECK(told.find('\n') == told.size() - 1);
  }
}

#endif
