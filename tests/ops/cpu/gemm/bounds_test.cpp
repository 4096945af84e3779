// Matrices at the end of the memory that the program may read.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>

#include "ops/cpu/gemm/gemm.h"

using namespace vitrine;
using cpu::Trans;

namespace {

/// `count` elements of value `x`. After the last one begins a page that nobody may read.
template <class T>
class Guarded {
 public:
  Guarded(int64_t count, float x) {
    const size_t page = sysconf(_SC_PAGESIZE), bytes = count * sizeof(T);
    const size_t whole = (bytes + page - 1) / page * page;
    size_ = whole + page;
    void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    start_ = static_cast<char*>(memory);
    REQUIRE(mprotect(start_ + whole, page, PROT_NONE) == 0);
    data = reinterpret_cast<T*>(start_ + whole - bytes);
    for (int64_t i = 0; i < count; ++i) data[i] = T(x);
  }
  ~Guarded() { munmap(start_, size_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  T* data;

 private:
  char* start_;
  size_t size_;
};

struct ProductSizes {
  int64_t M, N, K;
};

}  // namespace

TEST_CASE_TEMPLATE("gemm: nothing is read or written after the end of a matrix", T, float, bfloat16,
                   float16) {
  for (Isa set : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx, Isa::amx_emulated}) {
    if (!detail::includes(isa(), set)) continue;
    for (const ProductSizes& s : {ProductSizes{1, 21, 35}, ProductSizes{3, 21, 35}, ProductSizes{19, 21, 35},
                                  ProductSizes{33, 50, 65}})
      for (Trans ta : {Trans::no, Trans::yes})
        for (Trans tb : {Trans::no, Trans::yes}) {
          INFO(name(set), " M ", s.M, " N ", s.N, " K ", s.K);
          const Guarded<T> a(s.M * s.K, 1), b(s.K * s.N, 0.5f), c(s.M * s.N, 2), bias(s.N, 1);
          cpu::Epilogue<T> epilogue;
          epilogue.bias = bias.data;
          cpu::gemm_batched_on(set, {}, ta, tb, s.M, s.N, s.K, 1.0f, a.data, ta == Trans::yes ? s.M : s.K,
                               b.data, tb == Trans::yes ? s.K : s.N, 0.5f, c.data, s.N, &epilogue);
          const float wanted = 0.5f * s.K + 0.5f * 2 + 1;  // exact in every type
          for (int64_t i = 0; i < s.M * s.N; ++i)
            if (static_cast<float>(c.data[i]) != wanted) FAIL("got ", static_cast<float>(c.data[i]));
        }
  }
}
