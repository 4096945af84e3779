// A separate program, in which no larger product has been computed before.
#include <doctest/doctest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "core/parallel.h"
#include "ops/cpu/gemm/gemm.h"
#include "tests/skip.h"

using namespace vitrine;
using cpu::Trans;

namespace {

struct BatchSizes {
  int64_t count, M, N, K;
};

/// Products of equal numbers with one shared B.
std::vector<bfloat16> multiply(const BatchSizes& s, const cpu::Epilogue<bfloat16>& epilogue = {}) {
  const std::vector<bfloat16> A(s.count * s.M * s.K, bfloat16(0.5f)), B(s.N * s.K, bfloat16(0.25f));
  std::vector<bfloat16> C(s.count * s.M * s.N);
  const cpu::MatrixBatch batch{s.count, 1, {s.M * s.K, 0}, {0, 0}, {s.M * s.N, 0}};
  cpu::gemm_batched(batch, Trans::no, Trans::yes, s.M, s.N, s.K, 1.0f, A.data(), s.K, B.data(), s.K, 0.0f,
                    C.data(), s.N, &epilogue);
  return C;
}

}  // namespace

TEST_CASE(
    "what a thread has packed and summed up stays while another thread multiplies what wants more memory") {
  if (isa() == Isa::portable)
    return test::skip("on portable code OpenBLAS multiplies, which packs for itself");
  // finish runs between two parts of a product.
  const auto elsewhere = [](void* sizes, int64_t, int64_t, int64_t, int64_t, int64_t) {
    std::thread([&] { multiply(*static_cast<const BatchSizes*>(sizes)); }).join();
  };
  const int before = threads();
  set_threads(1);
  const std::pair<BatchSizes, BatchSizes> cases[] = {
      {{2, 70, 96, 40}, {1, 16, 256, 256}},        // B is packed once for both
      {{1, 200, 70, 1040}, {1, 800, 256, 1040}}};  // K is met block by block
  for (const auto& both : cases) {
    BatchSizes large = both.second;
    cpu::Epilogue<bfloat16> epilogue;
    epilogue.finish = elsewhere, epilogue.context = &large;
    const float wanted = static_cast<float>(both.first.K) / 8;
    for (const bfloat16 x : multiply(both.first, epilogue))
      if (static_cast<float>(x) != wanted) FAIL("got ", static_cast<float>(x), ", wanted ", wanted);
  }
  set_threads(before);
}
