// Several threads call OpenBLAS at the same time, and each call stays on its thread.
#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <iterator>
#include <thread>
#include <vector>

#include "core/parallel.h"
#include "ops/cpu/gemm/gemm.h"

using namespace vitrine;
using cpu::Trans;

namespace {

/// Sums of integers are exact in float64, so each product has exactly one right result.
class Product {
 public:
  Product(int64_t n, int64_t seed) : n_(n), a_(n * n), b_(n * n), c_(n * n), expected_(n * n) {
    for (int64_t i = 0; i < n * n; ++i) {
      a_[i] = static_cast<double>((7 * i + seed) % 13);
      b_[i] = static_cast<double>((5 * i + seed) % 11);
    }
    for (int64_t i = 0; i < n; ++i)
      for (int64_t k = 0; k < n; ++k)
        for (int64_t j = 0; j < n; ++j) expected_[i * n + j] += a_[i * n + k] * b_[k * n + j];
  }
  bool is_right() {
    cpu::gemm(Trans::no, Trans::no, n_, n_, n_, 1.0, a_.data(), n_, b_.data(), n_, 0.0, c_.data(), n_);
    return c_ == expected_;
  }

 private:
  int64_t n_;
  std::vector<double> a_, b_, c_, expected_;
};

int64_t threads_of_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

}  // namespace

TEST_CASE("a product through OpenBLAS starts no thread of OpenBLAS, whichever thread calls it") {
  const int before = threads();
  set_threads(2);
  Product product(500, 1);    // large enough for OpenBLAS to use all the threads that it may
  CHECK(product.is_right());  // the helpers are there now
  std::thread([&] {
    const int64_t count = threads_of_process();
    set_threads(1);
    CHECK(product.is_right());
    set_threads(2);
    CHECK(product.is_right());
    CHECK(threads_of_process() == count);
  }).join();
  set_threads(before);
}

TEST_CASE("products through OpenBLAS by several threads at a time are right") {
  std::atomic<int> wrong = 0;
  std::vector<std::thread> users;
  for (int64_t user = 0; user < 6; ++user) {
    users.emplace_back([user, &wrong] {
      Product product(20 + user, user);
      for (int repeat = 0; repeat < 500; ++repeat) wrong += !product.is_right();
    });
  }
  for (std::thread& user : users) user.join();
  CHECK(wrong == 0);
}
