#include "cuda/emulator/mma.h"

#include "core/float16.h"

namespace vitrine::emulator {
namespace {

template <class T>
float value(uint64_t words, unsigned i) {
  T x;
  x.bits = static_cast<uint16_t>(words >> 16 * i);
  return static_cast<float>(x);
}

}  // namespace

template <class T>
void multiply_accumulate(float (&sum)[4], const MmaOperands& x) {
  float a_rows[2][16], b_columns[2][16];
  for (unsigned k = 0; k < 16; ++k)
    for (unsigned i = 0; i < 2; ++i) {
      a_rows[i][k] = value<T>(x.a[k / 8][k % 8 / 2], 2 * i + k % 2);
      b_columns[i][k] = value<T>(x.b[4 * i + k % 8 / 2], k / 8 * 2 + k % 2);
    }
  for (unsigned k = 0; k < 16; ++k)
    for (unsigned r = 0; r < 2; ++r)
      for (unsigned c = 0; c < 2; ++c) sum[2 * r + c] += a_rows[r][k] * b_columns[c][k];
}

template void multiply_accumulate<bfloat16>(float (&)[4], const MmaOperands&);
template void multiply_accumulate<float16>(float (&)[4], const MmaOperands&);

}  // namespace vitrine::emulator
