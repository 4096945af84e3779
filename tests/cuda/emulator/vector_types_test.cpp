// CUDA's vector types, functions of numbers and bits, and copies: features of <cuda_runtime.h> that
// students' kernels use.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "cuda/launch.h"

namespace {

using namespace vitrine;

/// Sizes and alignments of the vectors of 1 to 4 elements of T.
template <class T, class V1, class V2, class V3, class V4>
constexpr bool lie_as_in_cuda() {
  return sizeof(V1) == sizeof(T) && alignof(V1) == alignof(T) && sizeof(V2) == 2 * sizeof(T) &&
         alignof(V2) == 2 * sizeof(T) && sizeof(V3) == 3 * sizeof(T) && alignof(V3) == alignof(T) &&
         sizeof(V4) == 4 * sizeof(T) && alignof(V4) == (sizeof(T) < 4 ? 4 * sizeof(T) : 16);
}
static_assert(lie_as_in_cuda<signed char, char1, char2, char3, char4>());
static_assert(lie_as_in_cuda<unsigned char, uchar1, uchar2, uchar3, uchar4>());
static_assert(lie_as_in_cuda<short, short1, short2, short3, short4>());
static_assert(lie_as_in_cuda<unsigned short, ushort1, ushort2, ushort3, ushort4>());
static_assert(lie_as_in_cuda<int, int1, int2, int3, int4>());
static_assert(lie_as_in_cuda<unsigned, uint1, uint2, uint3, uint4>());
static_assert(lie_as_in_cuda<long, long1, long2, long3, long4>());
static_assert(lie_as_in_cuda<unsigned long, ulong1, ulong2, ulong3, ulong4>());
static_assert(lie_as_in_cuda<long long, longlong1, longlong2, longlong3, longlong4>());
static_assert(lie_as_in_cuda<unsigned long long, ulonglong1, ulonglong2, ulonglong3, ulonglong4>());
static_assert(lie_as_in_cuda<float, float1, float2, float3, float4>());
static_assert(lie_as_in_cuda<double, double1, double2, double3, double4>());

/// Four elements a thread: Σ x, and y = x in reverse order.
__global__ void reverse_vectors_kernel(float4* y, const float4* x, double2* sums, unsigned n) {
  const uint3 i = threadIdx;
  const float4 v = __ldg(&x[i.x]);
  __stcs(&y[n - 1 - i.x], make_float4(v.w, v.z, v.y, v.x));
  sums[i.x] = make_double2(double{v.x} + v.y, double{v.z} + v.w);
}

__global__ void functions_kernel(float* y, float x) {
  const float results[] = {
      __expf(x),       __logf(x),        __log2f(x),         __log10f(x),
      __exp10f(x),     __sinf(x),        __cosf(x),          __tanf(x),
      __powf(x, 1.5f), __fdividef(x, 3), rsqrtf(x),          __saturatef(x),
      __frcp_rn(x),    __fsqrt_rn(x),    __fmaf_rn(x, x, 1), __fadd_rn(x, 1),
      __fsub_rn(x, 1), __fmul_rn(x, x),  __fdiv_rn(x, 3),    static_cast<float>(rsqrt(double{x}))};
  for (size_t i = 0; i < std::size(results); ++i) y[i] = results[i];
}

}  // namespace

TEST_CASE("vectors of four are read and written at once") {
  std::vector<float4> x(32), y(32);
  for (int i = 0; i < 32; ++i)
    x[static_cast<size_t>(i)] = make_float4(4.0f * i, 4.0f * i + 1, 4.0f * i + 2, 4.0f * i + 3);
  std::vector<double2> sums(32);
  VITRINE_LAUNCH(reverse_vectors_kernel, 1, 32, 0, y.data(), x.data(), sums.data(), 32u);
  CHECK(y[0].x == 127);
  CHECK(y[31].w == 0);
  CHECK(y[3].y == 127 - 13);
  CHECK(sums[2].x == 8 + 9);
  CHECK(sums[2].y == 10 + 11);
}

TEST_CASE("fast functions are those of mathematics") {
  const float x = 0.7f;
  const double d = double{x};
  std::vector<float> y(20);
  VITRINE_LAUNCH(functions_kernel, 1, 1, 0, y.data(), x);
  const std::vector<double> want = {std::exp(d),
                                    std::log(d),
                                    std::log2(d),
                                    std::log10(d),
                                    std::pow(10, d),
                                    std::sin(d),
                                    std::cos(d),
                                    std::tan(d),
                                    std::pow(d, 1.5),
                                    d / 3,
                                    1 / std::sqrt(d),
                                    d,
                                    1 / d,
                                    std::sqrt(d),
                                    d * d + 1,
                                    d + 1,
                                    d - 1,
                                    d * d,
                                    d / 3,
                                    1 / std::sqrt(d)};
  for (size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(y[i] - want[i]) <= 3e-7 * std::abs(want[i]));  // a few roundings in float32
  }
  CHECK(__saturatef(-1) == 0);
  CHECK(__saturatef(2) == 1);
  CHECK(__saturatef(NAN) == 0);
}

TEST_CASE("max and min need no std, and prefer a number to a NaN") {
  CHECK(max(1, -2) == 1);
  CHECK(min(1u, 2u) == 1u);
  CHECK(max(1.5f, NAN) == 1.5f);
  CHECK(min(double{NAN}, 1.5) == 1.5);
  CHECK(max(1ll << 40, 1ll) == 1ll << 40);
}

TEST_CASE("bits are counted, found, turned round and taken for other types") {
  CHECK(__popc(0xf00fu) == 8);
  CHECK(__popcll(~0ull) == 64);
  CHECK(__clz(1) == 31);
  CHECK(__clz(0) == 32);
  CHECK(__clzll(1) == 63);
  CHECK(__ffs(0) == 0);
  CHECK(__ffs(8) == 4);
  CHECK(__ffsll(1ll << 40) == 41);
  CHECK(__brev(0x80000001u) == 0x80000001u);
  CHECK(__brev(0x3u) == 0xc0000000u);
  CHECK(__brevll(0x5ull) == 0xa000000000000000ull);
  CHECK(__umulhi(0xffffffffu, 0xffffffffu) == 0xfffffffeu);
  CHECK(__mulhi(-1, 1) == -1);
  CHECK(__float_as_int(-0.0f) == std::numeric_limits<int>::min());
  CHECK(__int_as_float(0x3f800000) == 1);
  CHECK(__uint_as_float(__float_as_uint(2.5f)) == 2.5f);
  CHECK(__longlong_as_double(__double_as_longlong(-3.5)) == -3.5);
}

TEST_CASE("numbers become integers by the rounding that is named, and what is too large the largest one") {
  CHECK(__float2int_rn(2.5f) == 2);
  CHECK(__float2int_rn(-1.5f) == -2);
  CHECK(__float2int_rz(-1.5f) == -1);
  CHECK(__float2int_rd(-1.5f) == -2);
  CHECK(__float2int_ru(1.2f) == 2);
  CHECK(__float2int_rn(1e20f) == std::numeric_limits<int>::max());
  CHECK(__float2int_rz(-1e20f) == std::numeric_limits<int>::min());
  CHECK(__float2int_rn(NAN) == 0);
  CHECK(__int2float_rn((1 << 24) + 1) == 0x1p24f);
}

TEST_CASE("memory is filled and copied by lines, in the order of its stream") {
  int* on_gpu = nullptr;
  REQUIRE(cudaMalloc(&on_gpu, 6 * 4 * sizeof(int)) == cudaSuccess);  // 6 lines of 4
  REQUIRE(cudaMemset(on_gpu, 0xff, 6 * 4 * sizeof(int)) == cudaSuccess);
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(on_gpu, 0, 4 * sizeof(int), stream) == cudaSuccess);
  std::vector<int> first(4);
  REQUIRE(cudaMemcpyAsync(first.data(), on_gpu, 4 * sizeof(int), cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(first == std::vector<int>(4, -1));  // nobody has waited for the stream
  REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);

  std::vector<int> x(6 * 3), y(6 * 4);
  std::iota(x.begin(), x.end(), 1);
  CHECK(cudaMemcpy2D(on_gpu + 4, 4 * sizeof(int), x.data(), 3 * sizeof(int), 2 * sizeof(int), 5,
                     cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(cudaMemcpy(y.data(), on_gpu, 6 * 4 * sizeof(int), cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(y == std::vector<int>{0, 0, 0,  0,  1,  2,  -1, -1, 4,  5,  -1, -1,
                              7, 8, -1, -1, 10, 11, -1, -1, 13, 14, -1, -1});
  CHECK(cudaMemcpy2D(on_gpu, 4, x.data(), 12, 8, 1, cudaMemcpyHostToDevice) == cudaErrorInvalidPitchValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidPitchValue);
  CHECK(cudaFree(on_gpu) == cudaSuccess);
}
