#include "core/memory/thread_buffer.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <thread>

using vitrine::detail::thread_buffer;

namespace {

enum class Purpose { one, other };

}  // namespace

TEST_CASE("a thread's buffer grows once, to what another thread has asked of its kind") {
  float* const small = thread_buffer<float, Purpose::one>(10);
  CHECK(thread_buffer<float, Purpose::one>(5) == small);
  CHECK(reinterpret_cast<uintptr_t>(small) % 4096 == 0);
  float* elsewhere = nullptr;
  std::thread([&] {
    elsewhere = thread_buffer<float, Purpose::one>(100'000);
    elsewhere[99'999] = 1;
  }).join();
  CHECK(elsewhere != small);
  float* const large = thread_buffer<float, Purpose::one>(1);  // as much as the other thread wanted
  large[99'999] = 2;                                           // watched by the sanitizers
  CHECK(thread_buffer<float, Purpose::one>(100'000) == large);
  CHECK(thread_buffer<float, Purpose::other>(10) != large);
  CHECK(thread_buffer<double, Purpose::one>(10) != static_cast<void*>(large));
}

#ifndef VITRINE_SANITIZED  // sanitizers end a program that asks for more than there is
TEST_CASE("a buffer that cannot grow as far as another thread's holds what is asked") {
  std::atomic<size_t> most = 0;
  vitrine::detail::ThreadBuffer buffer;
  CHECK_THROWS_AS(buffer.take(size_t{1} << 62, most), std::bad_alloc);
  CHECK(most == 0);  // else every thread would ask for it from now on
  most = size_t{1} << 62;
  auto* const place = static_cast<char*>(buffer.take(8192, most));
  place[8191] = 1;
}
#endif
