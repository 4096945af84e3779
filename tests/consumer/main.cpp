// Uses an installed Vitrine from outside. Returns 0 if all is as it should be.
#include <fmt/format.h>
#include <vitrine/core/dtype.h>
#include <vitrine/core/parallel.h>

#include <atomic>

int main() {
  std::atomic<int64_t> sum = 0;
  vitrine::parallel_for(0, 100, 7, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) sum += i;
  });
  const bool promoted =
      vitrine::promote(vitrine::DType::bfloat16, vitrine::DType::float16) == vitrine::DType::float32;
  fmt::print("sum of 0 to 99: {}, bfloat16 with float16 is float32: {}\n", sum.load(), promoted);
  return sum == 4950 && promoted ? 0 : 1;
}
