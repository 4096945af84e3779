// Accesses out of bounds, and reads of unwritten memory: the errors of the emulator in traced
// kernels. Next to each wrong kernel is the right kernel, for which there is no error. This file is
// compiled with VITRINE_TRACE_OPTIONS.
#include "cuda/vector.h"
#include "tests/cuda/emulator/complaint.h"

namespace {

using namespace vitrine;
using namespace vitrine::test;

// Bounds ------------------------------------------------------------------------------------------

__global__ void copy_kernel(int* y, const int* x, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] = x[i];
}
__global__ void copy_one_more_kernel(int* y, const int* x, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i <= n) y[i] = x[i];
}

__global__ void shifted_kernel(int* y, int shift) {
  VITRINE_DYNAMIC_SHARED(int, buffer);
  buffer[threadIdx.x + static_cast<unsigned>(shift)] = 1;
  __syncthreads();
  y[threadIdx.x] = buffer[threadIdx.x];
}

enum class Array { first, last, rows, own };

/// An element of an array that has none, where other memory of the block or the thread lies.
template <Array kArray>
__global__ void array_kernel(int* y, int i) {
  __shared__ int first[8], last[8], rows[2][5];
  int own[4] = {1, 2, 3, static_cast<int>(threadIdx.x)};
  if constexpr (kArray == Array::first) first[i] = 1;
  if constexpr (kArray == Array::last) last[i] = 1;
  if constexpr (kArray == Array::rows) rows[0][i] = 1;
  if constexpr (kArray == Array::own) y[0] = own[i];
}

thread_local int of_the_program = 0;

/// A pointer that has left the block's memory, as no index tells.
__global__ void astray_kernel(int* stray) { *stray = 1; }

/// Sixteen bytes at an element: whole in the middle, but not at the end.
__global__ void vector_kernel(float* y, const float* x, int at) {
  *reinterpret_cast<float4*>(y) = *reinterpret_cast<const float4*>(x + at);
}

// Unwritten memory --------------------------------------------------------------------------------

__global__ void sum_kernel(int* y, const int* x, int n) {
  __shared__ int buffer[32];
  if (static_cast<int>(threadIdx.x) < n) buffer[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x != 0) return;
  int sum = 0;
  for (int i = 0; i < 32; ++i) sum += buffer[i];
  y[blockIdx.x] = sum;
}

/// What another block left in shared memory is not this one's.
__global__ void first_block_writes_kernel(int* y) {
  __shared__ int value;
  if (blockIdx.x == 0) value = 1;
  y[blockIdx.x] = value;
}

__global__ void add_kernel(int* y, const int* x) { y[threadIdx.x] += x[threadIdx.x]; }

/// Every second number is written, or all; then they are read four at a time.
__global__ void read_together_kernel(float* y, int step) {
  alignas(16) __shared__ float buffer[32];
  for (int i = 0; i < 32; i += step) buffer[i] = 1;
  vitrine::cuda::store(y, vitrine::cuda::load<4>(buffer + 4));
}
__global__ void read_far_together_kernel(float* y, const float* x) {
  vitrine::cuda::store(y, vitrine::cuda::load<4>(x));
}

struct Padded {
  float value;
  double place;
};

/// Copies a struct as a whole; with kBoth, after writing both of its members. The padding between
/// them is never written.
template <bool kBoth>
__global__ void padded_kernel(Padded* y) {
  __shared__ Padded from;
  from.value = 1;
  if (kBoth) from.place = 2;
  *y = from;
}
}  // namespace

TEST_CASE("a bound that is off by one is found where the access happens") {
  Tensor y = unwritten(100), x = numbers(100);
  CHECK(complaint(copy_kernel, 64, 0, y.data<int>(), x.data<int>(), 100) == "");
  const std::string found = complaint(copy_one_more_kernel, 64, 0, y.data<int>(), x.data<int>(), 100);
  INFO(found);
  CHECK(contains(found, "block (1, 0, 0): thread (36, 0, 0) reads 4 bytes at traced_bounds_test.cpp:"));
  CHECK(contains(found, ", 0 bytes after an allocation of 400 bytes"));
  CHECK(contains(complaint(copy_kernel, 64, 0, y.data<int>(), x.data<int>() - 1, 100),
                 "4 bytes before an allocation of 400 bytes"));
  const int of_the_host[100] = {};
  CHECK(contains(complaint(copy_kernel, 64, 0, y.data<int>(), &of_the_host[0], 100), "pointer of the host"));
}

TEST_CASE("shared memory ends where the launch said, and a wide access must be inside with all its bytes") {
  Tensor y = unwritten(32);
  CHECK(complaint(shifted_kernel, 32, 128, y.data<int>(), 0) == "");
  CHECK(contains(complaint(shifted_kernel, 32, 128, y.data<int>(), 1),
                 "thread (31, 0, 0) writes 4 bytes at traced_bounds_test.cpp:"));
  CHECK(contains(complaint(shifted_kernel, 32, 128, y.data<int>(), 1),
                 "0 bytes after the 128 bytes of dynamic shared memory"));
  Tensor to4 = empty({4}, DType::float32, Device::cuda), x = zeros({10}, DType::float32, Device::cuda);
  CHECK(complaint(vector_kernel, 1, 0, to4.data<float>(), x.data<float>(), 4) == "");
  CHECK(contains(complaint(vector_kernel, 1, 0, to4.data<float>(), x.data<float>(), 8),
                 "reads 16 bytes at traced_bounds_test.cpp:"));
  CHECK(contains(complaint(vector_kernel, 1, 0, to4.data<float>(), x.data<float>(), 8),
                 "at byte 32 of an allocation of 40 bytes, which ends before"));
}

TEST_CASE("an index that leaves its array is found, also where other memory of the kernel follows") {
  Tensor y = unwritten(1);
#ifdef __clang__
  const std::string blank;  // each compiler has its own way to write a type
#else
  const std::string blank = " ";
#endif
  const auto said = [&](auto* kernel, int i) { return complaint(kernel, 1, 0, y.data<int>(), i); };
  for (const int i : {0, 4, 7}) {
    CHECK(said(array_kernel<Array::first>, i) == "");
    CHECK(said(array_kernel<Array::last>, i) == "");
  }
  CHECK(contains(said(array_kernel<Array::first>, 8),
                 "thread (0, 0, 0) takes element 8 of int" + blank + "[8] at traced_bounds_test.cpp:"));
  CHECK(contains(said(array_kernel<Array::last>, 8), "takes element 8 of int" + blank + "[8]"));
  CHECK(contains(said(array_kernel<Array::last>, -1), "takes element -1 of int" + blank + "[8]"));
  CHECK(said(array_kernel<Array::rows>, 4) == "");
  CHECK(contains(said(array_kernel<Array::rows>, 5), "takes element 5 of int" + blank + "[5]"));
  CHECK(said(array_kernel<Array::own>, 3) == "");
  CHECK(contains(said(array_kernel<Array::own>, 4), "takes element 4 of int" + blank + "[4]"));
}

TEST_CASE("a variable of the program itself is no shared memory") {
  int* const stray = &of_the_program;
  // On the thread that runs the block; others have another variable of this name, which is none of
  // theirs.
  const std::string found = complaint(astray_kernel, 1, 0, stray);
  CHECK_MESSAGE(contains(found, "thread (0, 0, 0) writes 4 bytes at traced_bounds_test.cpp:"), found);
  CHECK(of_the_program == 0);
}

TEST_CASE("a read of shared or global memory that nothing has written is found") {
  Tensor y = unwritten(2), x = numbers(32);
  CHECK(complaint(sum_kernel, 32, 0, y.data<int>(), x.data<int>(), 32) == "");
  const std::string found = complaint(sum_kernel, 32, 0, y.data<int>(), x.data<int>(), 31);
  INFO(found);
  CHECK(contains(found, "thread (0, 0, 0) reads 4 bytes at traced_bounds_test.cpp:"));
  CHECK(contains(found, "that no thread of the block has written: buffer + 124 of 128 bytes"));
  CHECK(contains(complaint(first_block_writes_kernel, 1, 0, y.data<int>()),
                 "block (1, 0, 0): thread (0, 0, 0) reads 4 bytes"));
  Tensor z = unwritten(32);
  CHECK(contains(complaint(add_kernel, 32, 0, z.data<int>(), x.data<int>()),
                 "that nothing has written: byte 0 of an allocation of 128 bytes"));
  z = zeros({32}, DType::int32, Device::cuda);  // by a kernel that is not traced
  CHECK(complaint(add_kernel, 32, 0, z.data<int>(), x.data<int>()) == "");
}

TEST_CASE("of numbers that are read together each one must be written") {
  Tensor y = empty({4}, DType::float32, Device::cuda), x = empty({4}, DType::float32, Device::cuda);
  CHECK(complaint(read_together_kernel, 1, 0, y.data<float>(), 1) == "");
  CHECK(contains(complaint(read_together_kernel, 1, 0, y.data<float>(), 2),
                 "thread (0, 0, 0) reads 16 bytes at traced_bounds_test.cpp:"));
  cudaMemset(x.data<float>(), 0, 12);  // three of four
  const std::string found = complaint(read_far_together_kernel, 1, 0, y.data<float>(), x.data<float>());
  CHECK(contains(found, "that nothing has written: byte 0 of an allocation"));
  cudaMemset(x.data<float>() + 3, 0, 4);
  CHECK(complaint(read_far_together_kernel, 1, 0, y.data<float>(), x.data<float>()) == "");
}

TEST_CASE("padding of a struct need not be written, its members must") {
  Tensor y = empty({2}, DType::float64, Device::cuda);
  CHECK(complaint(padded_kernel<true>, 1, 0, static_cast<Padded*>(y.raw())) == "");
  CHECK(contains(complaint(padded_kernel<false>, 1, 0, static_cast<Padded*>(y.raw())),
                 "no thread of the block"));
}
