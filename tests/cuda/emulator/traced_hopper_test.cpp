// The emulated twins of Hopper's instructions: a small product through a ring of tiles, and the
// errors if one of its waits or numbers is wrong. This file is compiled with VITRINE_TRACE_OPTIONS.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "core/creation.h"
#include "core/gradcheck/differences.h"
#include "core/random.h"
#include "cuda/instructions/wgmma.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/view.h"
#include "tests/cuda/emulator/complaint.h"

namespace {

using namespace vitrine;
using cuda::kBox, cuda::kBoxBytes, cuda::Mbarrier, cuda::TensorMap;
using test::complaint_about, test::contains;

constexpr int kM = 64, kN = 256, kK = 4 * kBox, kStages = 2, kConsumers = 128, kSums = kN / 2;

struct Stage {
  char x[kBoxBytes], y[kN / kBox][kBoxBytes];
};

enum class Mistake {
  none,
  no_wait_for_tiles,
  no_wait_for_room,
  no_wait_for_products,
  no_fence_init,
  swizzle,
  bytes,
  more_bytes,
  no_fence,
  sums,
  no_last_wait
};

/// z [64, 256] = x · y. Threads 0 to 127 multiply, thread 128 loads; others do nothing.
template <class T, bool kXAlongK, bool kYAlongK, Mistake kMistake>
__global__ void multiply(float* z, const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap y) {
  __shared__ Mbarrier full[kStages], empty[kStages];
  VITRINE_DYNAMIC_SHARED(char, memory);
  auto* const stages = reinterpret_cast<Stage*>((reinterpret_cast<uintptr_t>(memory) + 1023) / 1024 * 1024);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) full[i].init(1), empty[i].init(kConsumers / 32);
    if (kMistake != Mistake::no_fence_init) Mbarrier::fence_init();
  }
  __syncthreads();
  if (threadIdx.x == kConsumers) {
    for (int step = 0; step < kK / kBox; ++step) {
      const int i = step % kStages;
      Stage& s = stages[i];
      if (kMistake != Mistake::no_wait_for_room) empty[i].wait(step / kStages % 2 == 0 ? 1 : 0);
      full[i].arrive_expecting(kMistake == Mistake::bytes        ? sizeof(Stage) - kBoxBytes
                               : kMistake == Mistake::more_bytes ? sizeof(Stage) + kBoxBytes
                                                                 : sizeof(Stage));
      const int k = step * kBox;
      cuda::load_box(s.x, x, kXAlongK ? k : 0, kXAlongK ? 0 : k, full[i]);
      for (int j = 0; j < kN / kBox; ++j)
        cuda::load_box(s.y[j], y, kYAlongK ? k : j * kBox, kYAlongK ? j * kBox : k, full[i]);
    }
  } else if (threadIdx.x < kConsumers) {
    float sums[kSums] = {};
    cuda::WarpgroupProducts products;
    products.begin(sums);
    for (int step = 0; step < kK / kBox; ++step) {
      const int i = step % kStages;
      if (kMistake != Mistake::no_wait_for_tiles) full[i].wait(static_cast<unsigned>(step / kStages % 2));
      if (kMistake != Mistake::no_fence || step == 0) products.fence();
      for (int k = 0; k < kBox; k += 16) {
        const uint64_t other = kMistake == Mistake::swizzle ? uint64_t{1} << 62 : 0;
        products.multiply_accumulate<T, kXAlongK, kYAlongK>(
            sums, cuda::matrix_descriptor<kXAlongK>(stages[i].x + (kXAlongK ? k * 2 : k * 128)) ^ other,
            cuda::matrix_descriptor<kYAlongK>(stages[i].y[0] + (kYAlongK ? k * 2 : k * 128)));
      }
      products.commit();
      if (kMistake != Mistake::no_wait_for_products && kMistake != Mistake::no_last_wait) products.wait<0>();
      if (threadIdx.x % 32 == 0) empty[i].arrive();
    }
    if (kMistake == Mistake::sums) {
      z[threadIdx.x] = sums[0];
      products.wait<0>();
      return;
    }
    if (kMistake != Mistake::no_last_wait) products.wait<0>();
    products.finish(sums);
    const unsigned lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
    for (unsigned e = 0; e < kSums; ++e)
      z[(row + e / 2 % 2 * 8) * kN + e / 4 * 8 + lane % 4 * 2 + e % 2] = sums[e];
  }
}

/// Matrices whose last 8 rows (columns) do not exist, and how they lie.
struct Operands {
  Tensor x, y, z = zeros({kM, kN}, DType::float32, Device::cuda);
  TensorMap x_map, y_map;

  Operands(DType dtype, bool x_along_k, bool y_along_k) {
    Generator g(1);
    x = to(copy_as(
               randn(x_along_k ? Shape{kM - 8, kK} : Shape{kK, kM - 8}, DType::float32, Device::cpu, 0, 1, g),
               dtype),
           Device::cuda);
    y = to(copy_as(
               randn(y_along_k ? Shape{kN - 8, kK} : Shape{kK, kN - 8}, DType::float32, Device::cpu, 0, 1, g),
               dtype),
           Device::cuda);
    x_map = cuda::tensor_map(dtype, x.raw(), x.size(1), x.size(0), x.size(1));
    y_map = cuda::tensor_map(dtype, y.raw(), y.size(1), y.size(0), y.size(1));
    if (!x_along_k) x = transpose(x);
    if (y_along_k) y = transpose(y);
  }
  double error() const {
    const auto wide = [](const Tensor& t) { return copy_as(to(t, Device::cpu), DType::float64); };
    const Tensor got = slice(slice(z, 0, 0, kM - 8), 1, 0, kN - 8);
    return distance(got.values(), matmul(wide(x), wide(y)).values(), 1e-3);
  }
};

template <class T, bool kXAlongK, bool kYAlongK, Mistake kMistake = Mistake::none>
Operands run() {
  Operands o(dtype_v<T>, kXAlongK, kYAlongK);
  cuda::allow_shared<multiply<T, kXAlongK, kYAlongK, kMistake>>();
  VITRINE_LAUNCH((multiply<T, kXAlongK, kYAlongK, kMistake>), 1, 160, kStages * sizeof(Stage) + 1024,
                 static_cast<float*>(o.z.raw()), o.x_map, o.y_map);
  return o;
}

template <class T, bool kXAlongK, bool kYAlongK>
void check_product() {
  const Operands o = run<T, kXAlongK, kYAlongK>();
  CHECK(o.error() <= 8 * epsilon(DType::float32));
  CHECK(o.z.values().back() == 0);  // outside of x and y the copies brought zeros
}

/// z [64, N] = x · y twice: as an instruction sets sums, and as a second one adds to them. x [64,
/// 16] comes from registers.
template <class T, bool kYAlongK, int kColumns>
__global__ void multiply_registers(float* z, const T* x, const __grid_constant__ TensorMap y) {
  __shared__ Mbarrier full;
  VITRINE_DYNAMIC_SHARED(char, memory);
  char* const boxes = memory + (1024 - reinterpret_cast<uintptr_t>(memory) % 1024) % 1024;
  if (threadIdx.x == 0) {
    full.init(1);
    Mbarrier::fence_init();
    full.arrive_expecting(kColumns / kBox * kBoxBytes);
    for (int j = 0; j < kColumns / kBox; ++j)
      cuda::load_box(boxes + j * kBoxBytes, y, kYAlongK ? 0 : j * kBox, kYAlongK ? j * kBox : 0, full);
  }
  __syncthreads();
  full.wait(0);
  const unsigned lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4, column = lane % 4 * 2;
  cuda::Fragment fragment;
  for (unsigned q = 0; q < 4; ++q) {
    const T* const two = x + (row + q % 2 * 8) * 16 + column + q / 2 * 8;
    fragment.quarter[q] = two[0].bits | uint32_t{two[1].bits} << 16;
  }
  float sums[kColumns / 2] = {100};
  cuda::WarpgroupProducts products;
  products.begin(sums);
  products.fence();
  const uint64_t descriptor = cuda::matrix_descriptor<kYAlongK>(boxes);
  products.multiply_accumulate<T, kYAlongK>(sums, fragment, descriptor, false);
  products.multiply_accumulate<T, kYAlongK>(sums, fragment, descriptor);
  products.commit();
  products.wait<0>();
  products.finish(sums);
  for (unsigned e = 0; e < kColumns / 2; ++e)
    z[(row + e / 2 % 2 * 8) * kColumns + e / 4 * 8 + column + e % 2] = sums[e];
}

template <class T, bool kYAlongK, int kColumns>
void check_registers() {
  Generator g(2);
  const auto draw = [&](const Shape& shape) {
    return copy_as(randn(shape, DType::float32, Device::cpu, 0, 1, g), dtype_v<T>);
  };
  const Tensor x = draw({kM, 16}), y = draw(kYAlongK ? Shape{kColumns, 16} : Shape{16, kColumns});
  const Tensor here_x = to(x, Device::cuda), here_y = to(y, Device::cuda);
  const Tensor z = zeros({kM, kColumns}, DType::float32, Device::cuda);
  cuda::allow_shared<multiply_registers<T, kYAlongK, kColumns>>();
  VITRINE_LAUNCH((multiply_registers<T, kYAlongK, kColumns>), 1, 128, kColumns / kBox * kBoxBytes + 1024,
                 static_cast<float*>(z.raw()), static_cast<const T*>(here_x.raw()),
                 cuda::tensor_map(dtype_v<T>, here_y.raw(), y.size(1), y.size(0), y.size(1)));
  const auto wide = [](const Tensor& t) { return copy_as(t, DType::float64); };
  const Tensor once = matmul(wide(x), kYAlongK ? transpose(wide(y)) : wide(y)), want = once + once;
  CHECK(distance(z.values(), want.values(), 1e-3) <= 8 * epsilon(DType::float32));
}

/// Eight warps read a value, and say so at a barrier, but one may not; the first thread then
/// overwrites it.
__global__ void overwrite(int* y, unsigned absent) {
  __shared__ int value;
  __shared__ Mbarrier read;
  if (threadIdx.x == 0) {
    value = 1;
    read.init(absent < 8 ? 7 : 8);
    Mbarrier::fence_init();
  }
  __syncthreads();
  y[threadIdx.x] = value;
  __syncwarp();
  if (threadIdx.x % 32 == 0 && threadIdx.x / 32 != absent) read.arrive();
  if (threadIdx.x != 0) return;
  read.wait(0);
  value = 2;
}

/// Of 168 registers a thread of three warpgroups, the first one keeps kKept for itself, and the
/// others take up to kTaken.
template <int kKept, int kTaken>
__global__ void share_registers(int* y) {
  if (threadIdx.x < 128)
    cuda::give_registers<kKept>();
  else
    cuda::take_registers<kTaken>();
  y[threadIdx.x] = 1;
}

template <Mistake kMistake>
std::string complaint() {
  return complaint_about([] { run<bfloat16, true, true, kMistake>(); });
}

template <int kKept, int kTaken>
std::string complaint_about_registers() {
  return complaint_about([] {
    Tensor y = empty({384}, DType::int32, Device::cuda);
    VITRINE_LAUNCH((share_registers<kKept, kTaken>), 1, 384, 0, y.data<int>());
  });
}

}  // namespace

TEST_CASE("a warpgroup multiplies tiles that the copy engine brings, however the matrices lie") {
  test::in_any_order([] {
    check_product<bfloat16, true, true>();
    check_product<bfloat16, true, false>();
    check_product<bfloat16, false, true>();
    check_product<float16, false, false>();
  });
}

TEST_CASE("a missing wait for tiles, for room or for products is noticed") {
  const std::string tiles = complaint<Mistake::no_wait_for_tiles>();
  CHECK(contains(tiles, "race on dynamic shared memory"));
  CHECK(contains(tiles, "thread (128, 0, 0) writes 128 bytes at traced_hopper_test.cpp:"));
  CHECK(contains(complaint<Mistake::no_wait_for_room>(),
                 "block (0, 0, 0): an mbarrier gets arrivals of a phase before"));
  CHECK(contains(complaint<Mistake::no_wait_for_products>(),
                 "x or y has changed before the product was waited for"));
}

TEST_CASE(
    "a barrier that expects other bytes than come, and a descriptor that tells of no swizzle, are errors") {
  CHECK(contains(complaint<Mistake::bytes>(), "gets more bytes than it expects"));
  CHECK(contains(complaint<Mistake::more_bytes>(), "no thread can go on"));
  CHECK(contains(complaint<Mistake::more_bytes>(), "an mbarrier its arrivals and bytes"));
  CHECK(contains(complaint<Mistake::swizzle>(), "swizzle of 128 bytes"));
}

TEST_CASE("the copy engine wants an mbarrier that a fence has told it of") {
  CHECK(contains(complaint<Mistake::no_fence_init>(), "an mbarrier without a fence_init() since its init()"));
}

TEST_CASE("warpgroups take no more registers than others give, in any order") {
  test::in_any_order([] {
    CHECK(complaint_about_registers<40, 232>() == "");
    const std::string few = complaint_about_registers<48, 232>();
    CHECK(contains(few, "no thread can go on"));
    CHECK(contains(few, "waits at traced_hopper_test.cpp:"));
    CHECK(contains(few, "a warpgroup that takes registers those that others give"));
  });
  CHECK(contains(complaint_about_registers<176, 168>(), "threads that have 168 cannot keep 176"));
  CHECK(contains(complaint_about_registers<40, 160>(), "threads that have 168 would lose some to have 160"));
}

TEST_CASE("x from registers, with y either way") {
  check_registers<bfloat16, true, 64>();
  check_registers<bfloat16, false, 128>();
  check_registers<float16, false, 64>();
  check_registers<float16, true, 128>();
}

TEST_CASE("products after a wait need a fence") {
  CHECK(contains(complaint<Mistake::no_fence>(), "a product without a fence"));
}

TEST_CASE("whoever overwrites what one of eight warps may still read is found, whichever it is") {
  Tensor y = empty({256}, DType::int32, Device::cuda);
  const auto complaint = [&](unsigned absent) {
    return complaint_about([&] { VITRINE_LAUNCH(overwrite, 1, 256, 0, y.data<int>(), absent); });
  };
  CHECK(complaint(8) == "");
  for (unsigned absent = 1; absent < 8; ++absent)
    CHECK(contains(complaint(absent), "race on value + 0 of 4 bytes"));
}

TEST_CASE("sums are not there before the products are finished") {
  CHECK(contains(complaint<Mistake::no_last_wait>(), "finished before their products have been waited for"));
  CHECK(std::isnan(run<bfloat16, true, true, Mistake::sums>().z.values()[0]));
}
