// How attention's kernels are launched: how many rows a tile has, and how many blocks and threads that makes.
#pragma once

#include <algorithm>
#include <type_traits>

#include "cuda/attention/key_gradients.h"
#include "cuda/attention/query_gradients.h"

namespace vitrine::cuda {

/// Rows of a tile of a side that has `count`, a multiple of `least`: as many as the warps own, if the kernel's Memory of them fits into
/// the GPU's shared memory.
template <class Memory>
int tile_rows(int64_t count, int least, int size, int channels, bool laser) {
  int rows = least * kAttentionWarps;
  const auto fits = [&] { return bytes_of<Memory>(rows, size, channels, laser) <= most_shared(); };
  while (rows > least && (rows / 2 >= count || !fits())) rows /= 2;
  return rows;
}

/// Bytes of dynamic shared memory for the kernel's Memory of a tile; an Error where this GPU has less.
template <class Memory, class S>
size_t shared_bytes(const char* kernel, int tile, const AttentionInputs<S>& in) {
  const size_t bytes = bytes_of<Memory>(tile, in.size, in.channels, in.laser), most = most_shared();
  check(bytes <= most,
        "{}: heads of {} and {} channels in {} need {} bytes of shared memory, and a block of this GPU has "
        "{}; use narrower heads or a smaller dtype",
        kernel, in.size, in.channels, name(dtype_v<S>), bytes, most);
  return bytes;
}

/// Calls run(part) for so many batches at a time: part(x) are those of x, if it is defined.
template <class F>
void in_batches(int64_t batches, F&& run) {
  const int64_t most = most_in_depth();
  for (int64_t begin = 0; begin < batches; begin += most)
    run([begin, end = std::min(begin + most, batches)](const Tensor& x) {
      if (!x.defined()) return x;
      Shape shape = x.shape();
      shape[0] = end - begin;
      return x.alias(shape, x.strides(), begin * x.strides()[0]);
    });
}

/// `parts` blocks a tile of the rows of x [B, H, T, ·].
inline dim3 tile_grid(const Tensor& x, int tile, int parts = 1) {
  return dim3(static_cast<unsigned>((x.size(2) + tile - 1) / tile * parts), static_cast<unsigned>(x.size(1)),
              static_cast<unsigned>(x.size(0)));
}

template <int kHeight>
unsigned tile_threads(int tile) {
  return static_cast<unsigned>(tile) / (16 * kHeight) * kWarp;
}

/// Calls f(Type<S>{}, inputs, height). LASER's backward wants the forward's tiles, so it is the gradients' memory that says how
/// many queries fit. `height` is a compile-time number, that of the accumulators of queries: tensor cores have
/// two of them where heads are narrow, for which a block of keys then is read from shared memory once. `near`: what Hopper's kernels
/// have done; undefined where they have not run.
template <class F>
void visit_attention(const char* kernel, const Tensor& q, const Tensor& k, const Tensor& v,
                     const Tensor& bias, const Tensor& slopes, const Tensor& allowed,
                     const AttentionForm& form, const Tensor& near, F&& f) {
  const int64_t most = std::max(q.size(3), v.size(3));
  const bool laser = form.read == AttentionRead::laser;
  check(most <= kMostHeadSize, "{}: the heads have {} channels, its CUDA kernel wants {} at most", kernel,
        most, kMostHeadSize);
  check(q.size(2) < (1 << 30) && k.size(2) < (1 << 30) && q.size(1) <= 65535,
        "{}: {} queries and {} keys of {} heads are more than a grid of blocks holds", kernel, q.size(2),
        k.size(2), q.size(1));
  visit_device_floating(q.dtype(), kernel, [&](auto type) {
    using S = typename decltype(type)::type;
    const auto size = static_cast<int>(q.size(3)), channels = static_cast<int>(v.size(3));
    const auto run = [&](auto height) {
      const AttentionInputs<S> inputs{
          Heads<S>::of(q),
          Heads<S>::of(k),
          Heads<S>::of(v),
          Scores<AccumulatorOf<S>>::of(q, k, bias, slopes, allowed, form),
          size,
          channels,
          static_cast<int>(q.size(1) / k.size(1)),
          tile_rows<QueryMemory<S>>(q.size(2), 16 * height, size, channels, laser),
          laser,
          near.defined() ? near.data<int32_t>() : nullptr};
      f(type, inputs, height);
    };
    if constexpr (kTensorCores<S>)
      if (most <= kMostHeadSize / 2) return run(std::integral_constant<int, 2>{});
    run(std::integral_constant<int, 1>{});
  });
}

}  // namespace vitrine::cuda
