// Streams, events, page-locked memory, several GPUs, and the allocator's order by streams. The
// emulator runs the work of a stream as late as CUDA allows, so a missing wait gives a wrong
// result.
#include "core/gpu/stream.h"

#include <doctest/doctest.h>

#include <vector>

#include "core/memory/allocator.h"
#include "core/profiler.h"
#include "core/tensor_kernels.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/cuda/device.h"

#if VITRINE_CUDA_EMULATED
#include "cuda/launch.h"
#endif

using namespace vitrine;
using namespace vitrine::test;

namespace {

std::vector<float> values(const Tensor& x) {
  const Tensor y = copy_to(x, Device::cpu);
  return {y.data<float>(), y.data<float>() + y.numel()};
}

}  // namespace

TEST_CASE("page-locked memory is the CPU's own where there is no GPU") {
  Tensor x = empty_pinned({2, 3}, DType::int64), y = zeros({2, 3}, DType::int64);
  VITRINE_RUN(fill, x, 7.0);
  CHECK(x.device().is_cpu());
  CHECK(x.values() == std::vector<double>(6, 7));
  copy_async(y, x);
  CHECK(y.values() == std::vector<double>(6, 7));
}

TEST_CASE("kernels of a stream's scope give what they give without it") {
  if (!has_gpu()) return;
  const Tensor x = tensor({1, 2, 3, 4}, {2, 2}, DType::float32, Device::cuda);
  const std::vector<float> wanted = values(matmul(x * 2, x) + 1);
  const Stream stream(Device::cuda);
  CHECK(Stream::current(Device::cuda).handle() == nullptr);
  {
    const StreamScope scope(stream);
    CHECK(Stream::current(Device::cuda).handle() == stream.handle());
    CHECK(values(matmul(x * 2, x) + 1) == wanted);
  }
  CHECK(Stream::current(Device::cuda).handle() == nullptr);
}

TEST_CASE("a stream that waits for another reads what the other has written") {
  if (!has_gpu()) return;
  const Stream makes(Device::cuda), reads(Device::cuda);
  Tensor x, y;
  {
    const StreamScope scope(makes);
    x = full({1000}, 3, DType::float32, Device::cuda) * 2;
  }
  SUBCASE("for the stream") { reads.wait_for(makes); }
  SUBCASE("for an event") {
    const StreamScope scope(makes);
    Event made(Device::cuda);
    made.record();
    reads.wait_for(made);
  }
  {
    const StreamScope scope(reads);
    y = x + 1;
    CHECK(values(y) == std::vector<float>(1000, 7));
  }
}

#if VITRINE_CUDA_EMULATED
TEST_CASE("the emulator runs a stream's work when it is waited for, not before") {
  const Stream stream(Device::cuda);
  Tensor x = full({8}, 1, DType::float32, Device::cuda);
  Event written(Device::cuda);
  {
    const StreamScope scope(stream);
    add_in_place(x, x);
    written.record();
  }
  CHECK(values(x) == std::vector<float>(8, 1));  // the default stream did not wait
  CHECK(!written.is_done());
  CHECK(written.is_done());  // who asks again gets there
  CHECK(values(x) == std::vector<float>(8, 2));
}

TEST_CASE("a kernel that fails on a stream tells so where it is waited for") {
  const Stream stream(Device::cuda);
  emulator::enqueue(static_cast<emulator::Stream*>(stream.handle()), [] { fail("kernel x: a race"); });
  CHECK_THROWS_WITH(stream.synchronize(), doctest::Contains("kernel x: a race"));
}
#endif

TEST_CASE("page-locked memory is copied while the CPU goes on, and kept until then") {
  if (!has_gpu()) return;
  const Stream stream(Device::cuda);
  Tensor y = zeros({256}, DType::float32, Device::cuda), back = empty_pinned({256});
  stream.wait_for(Stream::current(Device::cuda));  // which writes the zeros
  {
    const StreamScope scope(stream);
    Tensor x = empty_pinned({256});
    std::fill_n(x.data<float>(), 256, 5.0f);
    copy_async(y, x);
    x = Tensor();  // the copy holds its memory
    Tensor other = empty_pinned({256});
    std::fill_n(other.data<float>(), 256, 9.0f);
    copy_async(back, y);
  }
  stream.synchronize();
  CHECK(values(y) == std::vector<float>(256, 5));
  CHECK(values(back) == std::vector<float>(256, 5));
  CHECK_THROWS_WITH(copy_async(y, empty_pinned({4})), doctest::Contains("wanted equal shapes and dtypes"));
}

TEST_CASE("a stream uses again at once what its tensors leave, other streams do not") {
  if (!has_gpu()) return;
  const Caching caching;
  const Device gpu = Device::cuda;
  const Stream first(gpu), second(gpu);
// Under sanitizers memory is not kept for a stream, but freed when all work is done
#ifndef VITRINE_SANITIZED
  const void* left = nullptr;
  {
    const StreamScope scope(first);
    left = zeros({1000}, DType::float32, gpu).raw();
    CHECK(empty({1000}, DType::float32, gpu).raw() == left);
  }
  {
    const StreamScope scope(second);
    const Tensor other = empty({1000}, DType::float32, gpu);
    CHECK(other.raw() != left);
  }
#endif
  SUBCASE("nor does the first while another stream still works with it") {
    Tensor sum;
    {
      const StreamScope scope(first);
      const Tensor x = full({1000}, 2, DType::float32, gpu);
      second.wait_for(first);
      const StreamScope inner(second);
      sum = x + 1;
      second.keep(x);
    }
    {
      const StreamScope scope(first);
      const Tensor y = full({1000}, 7, DType::float32, gpu);
      first.synchronize();  // y is written, and `second` has not yet read x
      const StreamScope inner(second);
      CHECK(values(sum) == std::vector<float>(1000, 3));
    }
  }
}

TEST_CASE("statistics of a GPU count what its tensors hold, and cached memory goes back") {
  if (!has_gpu()) return;
  const Caching caching;
  const Device gpu = Device::cuda;
  synchronize(gpu);
  memory::release_cached(gpu);
  const auto before = memory::statistics(gpu);
  const auto cpu = memory::statistics();
  {
    const Tensor x = empty({1 << 20}, DType::float32, gpu);
    CHECK(memory::statistics(gpu).now == before.now + (4 << 20));
    CHECK(memory::statistics(gpu).allocations == before.allocations + 1);
    CHECK(memory::statistics(gpu).reserved > before.reserved);
    memory::reset_peak(gpu);
    empty({1 << 20}, DType::float32, gpu);
    CHECK(memory::statistics(gpu).peak == memory::statistics(gpu).now + (4 << 20));
  }
  CHECK(memory::statistics(gpu).now == before.now);
  memory::release_cached(gpu);
  CHECK(memory::statistics(gpu).reserved == before.reserved);
  CHECK(memory::statistics().allocations == cpu.allocations);
  memory::track_ops(true);
  const Tensor y = exp(ones({500}, DType::float32, gpu));
  memory::track_ops(false);
  const auto by_op = memory::by_op();
  for (const char* op : {"fill", "exp"}) {
    CHECK(by_op.contains(op));
    if (by_op.contains(op)) CHECK(by_op.at(op) == 2048);
  }
}

TEST_CASE("several GPUs: a tensor's kernels run where it lies, copies go between them") {
  if (!has_gpu()) return;
  const Device second{DeviceKind::cuda, 1};
  Tensor there;
  try {
    there = tensor({1, 2, 3}, DType::float32, second);
  } catch (const Error& e) {
    MESSAGE("NOT RUN: ", e.what());
    return;
  }
  CHECK(values(there + there) == std::vector<float>{2, 4, 6});
  const Tensor here = to(there, Device::cuda);
  CHECK(here.device() == Device::cuda);
  CHECK(values(here * 3) == std::vector<float>{3, 6, 9});
  CHECK_THROWS_WITH(here + there, doctest::Contains("different devices, cuda:0 and cuda:1"));
}

#if VITRINE_CUDA_EMULATED
TEST_CASE("a copy from another GPU waits for what that one computes, on default streams too") {
  struct Delayed {
    Delayed() { emulator::delay_default_streams(true); }
    ~Delayed() { emulator::delay_default_streams(false); }
  } const delayed;
  const Tensor there = full({1000}, 2, DType::float32, {DeviceKind::cuda, 1});
  const Tensor here = to(there + 1, Device::cuda);
  CHECK(values(here) == std::vector<float>(1000, 3));
}

TEST_CASE("an error that was caught is not told again by the next launch") {
  struct Full {
    Full() { emulator::set_device_memory_size(emulator::device_memory_in_use()); }
    ~Full() { emulator::set_device_memory_size(size_t{1} << 40); }
  };
  Tensor x = ones({3}, DType::float32, Device::cuda);
  {
    const Full full;
    CHECK_THROWS_WITH(empty_pinned({64, 1 << 20}), doctest::Contains("page-locked memory were asked for"));
  }
  CHECK_THROWS(cuda::check_call(cudaSetDevice(7), "cudaSetDevice"));
  CHECK_NOTHROW(add_in_place(x, x));
  CHECK(values(x) == std::vector<float>(3, 2));
}

TEST_CASE("a GPU that is full: who asked for how much, and what is there; nothing is lost") {
  struct Small {
    Small() { emulator::set_device_memory_size(emulator::device_memory_in_use() + (size_t{48} << 20)); }
    ~Small() { emulator::set_device_memory_size(size_t{1} << 40); }
  };
  const Caching caching;
  const Device gpu = Device::cuda;
  const Tensor x = ones({1, 1 << 20}, DType::float32, gpu), column = ones({16, 1}, DType::float32, gpu);
  memory::release_cached(gpu);
  const Small small;
  const auto before = memory::statistics(gpu);
  const auto is_told = [&](const std::string& op) {
    return doctest::Contains((op +
                              ": a tensor float32[16, 1048576]: out of memory on cuda:0: 67108864 bytes were "
                              "asked for")
                                 .c_str());
  };
  CHECK_THROWS_WITH(zeros({16, 1 << 20}, DType::float32, gpu), is_told("full"));
  CHECK_THROWS_WITH(matmul(column, x), is_told("matmul"));
  CHECK_THROWS_WITH(column * x, is_told("mul"));
  CHECK_THROWS_WITH(zeros({16, 1 << 20}, DType::float32, gpu), doctest::Contains("MiB are free"));
  CHECK(memory::statistics(gpu).now == before.now);
  // What is cached goes back first: tensors that together are larger than the GPU follow each
  // other.
  for (int64_t rows = 5; rows < 10; ++rows) CHECK_NOTHROW(full({rows, 1 << 20}, 1, DType::float32, gpu));
}

TEST_CASE("memory that a stream still works with is waited for before it is said that there is no more") {
  struct Small {
    Small() { emulator::set_device_memory_size(emulator::device_memory_in_use() + (size_t{48} << 20)); }
    ~Small() { emulator::set_device_memory_size(size_t{1} << 40); }
  };
  const Device gpu = Device::cuda;
  memory::release_cached(gpu);
  const Small small;
  const Stream other(gpu);
  Tensor y = zeros({1}, DType::float32, gpu);
  {
    const Tensor x = ones({32, 1 << 18}, DType::float32, gpu);
    other.wait_for(Stream::current(gpu));
    const StreamScope scope(other);
    y = sum(x);
    for (int i = 0; i < 100; ++i) scale_in_place(y, 1);  // it takes a while
    other.keep(x);
  }
  CHECK_NOTHROW(zeros({40, 1 << 18}, DType::float32, gpu));
  other.synchronize();
  CHECK(y.item() == 32 << 18);
}

TEST_CASE("an error that came without a launch having told it is told by the next one, with its op") {
  const Tensor x = ones({3}, DType::float32, Device::cuda);
  emulator::noted(cudaErrorInvalidDevice);
  CHECK_THROWS_WITH(exp(x), doctest::Contains("CUDA: exp: "));
  emulator::noted(cudaErrorInvalidDevice);
  CHECK_THROWS_WITH(
      exp(x), doctest::Contains("noticed here, perhaps of an earlier kernel: run with VITRINE_CUDA_SYNC=1"));
  CHECK_NOTHROW(exp(x));
}

TEST_CASE("an error of CUDA names the op and the kernel") {
  const detail::KernelScope scope("softmax");
  CHECK_THROWS_WITH(
      cuda::check_call(cudaErrorInvalidDevice, "softmax_rows"),
      doctest::Contains("CUDA: softmax: softmax_rows: invalid device ordinal (noticed here, perhaps"));
}
#endif

TEST_CASE("a profiler waits for each kernel, so that its time is that of the work") {
  if (!has_gpu()) return;
  const Stream stream(Device::cuda);
  const StreamScope scope(stream);
  const Tensor x = ones({300}, DType::float32, Device::cuda);
  const auto is_done = [&] {
    Event event(Device::cuda);
    const Tensor y = exp(x);
    event.record();
    return event.is_done();
  };
#if VITRINE_CUDA_EMULATED
  CHECK_FALSE(is_done());  // a stream's work comes late there
  stream.synchronize();
#endif
  const Profiler profiler;
  const bool done = is_done();
#if VITRINE_CUDA_EMULATED
  CHECK(done);
#else
  static_cast<void>(done);  // the event itself may not have come
#endif
  CHECK(profiler.by_op().at(0).name == "exp");
}

TEST_CASE("streams of the CPU do nothing") {
  const Stream stream(Device::cpu);
  const StreamScope scope(stream);
  Tensor y = zeros({3});
  copy_async(y, ones({3}));
  stream.keep(y);
  stream.wait_for(Stream::current(Device::cpu));
  stream.synchronize();
  synchronize(Device::cpu);
  CHECK(values(y) == std::vector<float>(3, 1));
  Event event(Device::cpu);
  event.record();
  CHECK(event.is_done());
}
