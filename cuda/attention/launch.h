// Code that the steps `tiled` and `tensor_core` share: which attention they support, the number of
// rows of a tile, and the numbers of blocks and threads.
#pragma once

#include <algorithm>
#include <type_traits>

#include "core/creation.h"
#include "cuda/attention/forward_tile.h"
#include "cuda/attention/key_gradients.h"
#include "cuda/attention/query_gradients.h"
#include "cuda/attention/steps.h"

namespace vitrine::cuda {

/// Rows of a tile, for a side with `count` rows; a multiple of `least`. As many as the warps can
/// own, if the kernel's Memory for them fits into the GPU's shared memory.
template <class Memory>
int tile_rows(int64_t count, int least, int size, int channels, bool laser) {
  int rows = least * kAttentionWarps;
  const auto fits = [&] { return bytes_of<Memory>(rows, size, channels, laser) <= most_shared(); };
  while (rows > least && (rows / 2 >= count || !fits())) rows /= 2;
  return rows;
}

/// Bytes of dynamic shared memory for the kernel's Memory for one tile.
template <class Memory, class S>
size_t shared_bytes(int tile, const AttentionInputs<S>& in) {
  return bytes_of<Memory>(tile, in.size, in.channels, in.laser);
}

/// A grid with `parts` blocks per tile of rows of x [B, H, T, ·].
inline dim3 tile_grid(const Tensor& x, int tile, int parts = 1) {
  return dim3(static_cast<unsigned>((x.size(2) + tile - 1) / tile * parts), static_cast<unsigned>(x.size(1)),
              static_cast<unsigned>(x.size(0)));
}

template <int kHeight>
unsigned tile_threads(int tile) {
  return static_cast<unsigned>(tile) / (16 * kHeight) * kWarp;
}

/// LASER's backward requires the tiles of the forward, so the memory of the gradients decides how
/// many queries fit. `kHeight` is the height of the accumulators of queries. `near`: the part that
/// Hopper's kernels have computed; undefined if they have not run.
template <class S, int kHeight>
AttentionInputs<S> tiled_inputs(const AttentionForward& p, const Tensor& near = {}) {
  const auto size = static_cast<int>(p.q.size(3)), channels = static_cast<int>(p.v.size(3));
  const bool laser = p.form.read == AttentionRead::laser;
  return {Heads<S>::of(p.q),
          Heads<S>::of(p.k),
          Heads<S>::of(p.v),
          Scores<AccumulatorOf<S>>::of(p.q, p.k, p.bias, p.slopes, p.allowed, p.form),
          size,
          channels,
          static_cast<int>(p.q.size(1) / p.k.size(1)),
          tile_rows<QueryMemory<S>>(p.q.size(2), 16 * kHeight, size, channels, laser),
          laser,
          near.defined() ? near.data<int32_t>() : nullptr};
}

/// Rows of a tile of keys, and the number of blocks per tile: two for wide heads.
template <class S>
struct KeyTiles {
  int tile, parts;

  KeyTiles(const AttentionInputs<S>& in, int64_t keys)
      : tile(tile_rows<KeyMemory<S>>(keys, 16, in.size, in.channels, in.laser)),
        parts(std::max(in.size, in.channels) <= KeyGradients<S>::kPartChannels ? 1 : 2) {}
};

/// Calls f(Type<S>{}) for the dtypes that are multiplied number by number; returns false for
/// others.
template <class F>
bool visit_wide(const AttentionForward& p, F&& f) {
  switch (p.q.dtype()) {
    case DType::float32: return f(Type<float>{});
    case DType::float64: return f(Type<double>{});
    default: return false;
  }
}

/// Calls f(Type<S>{}, height) for the dtypes of tensor cores; returns false for others. `height` is
/// a constant. For narrow heads a warp has two accumulators of queries, so that it reads a block of
/// keys from shared memory only once for both.
template <class F>
bool visit_16_bits(const AttentionForward& p, F&& f) {
  const auto with_height = [&](auto type) {
    if (std::max(p.q.size(3), p.v.size(3)) <= kMostHeadSize / 2)
      return f(type, std::integral_constant<int, 2>{});
    return f(type, std::integral_constant<int, 1>{});
  };
  switch (p.q.dtype()) {
    case DType::bfloat16: return with_height(Type<bfloat16>{});
    case DType::float16: return with_height(Type<float16>{});
    default: return false;
  }
}

inline bool fits_grid(const AttentionForward& p) {
  constexpr int64_t kMostHeads = 65535;
  return p.q.size(1) <= kMostHeads && std::max(p.q.size(3), p.v.size(3)) <= kMostHeadSize;
}

/// Whether the forward's tile fits into the shared memory of the current device.
template <class S, int kHeight>
bool fits_forward(const AttentionForward& p) {
  if (!fits_grid(p)) return false;
  const AttentionInputs<S> in = tiled_inputs<S, kHeight>(p);
  return shared_bytes<ForwardMemory<S>>(in.tile, in) <= most_shared();
}

/// Whether the backward's tiles fit.
template <class S, int kHeight>
bool fits_backward(const AttentionBackward& p) {
  if (!fits_forward<S, kHeight>(p)) return false;
  const AttentionInputs<S> in = tiled_inputs<S, kHeight>(p);
  const int key_tile = KeyTiles<S>(in, p.k.size(2)).tile;
  return shared_bytes<QueryMemory<S>>(in.tile, in) <= most_shared() &&
         shared_bytes<KeyMemory<S>>(key_tile, in) <= most_shared();
}

template <class S, int kHeight>
__global__ void __launch_bounds__(kAttentionThreads, 2)
    attention_kernel(AttentionInputs<S> in, AttentionOutputs<S> out) {
  VITRINE_DYNAMIC_SHARED(char, shared);
  ForwardTile<S, kHeight>(in, out, shared).run();
}

template <class S, int kHeight>
__global__ void __launch_bounds__(kAttentionThreads, 2)
    query_gradients_kernel(Heads<S> dq, AttentionInputs<S> in, Cotangents<S> out, Kept<S> kept) {
  VITRINE_DYNAMIC_SHARED(char, shared);
  QueryGradients<S, kHeight>(in, out, kept, shared).run(dq);
}

template <class S>
__global__ void __launch_bounds__(kAttentionThreads, 2)
    key_gradients_kernel(Heads<S> dk, Heads<S> dv, AttentionInputs<S> in, Cotangents<S> out, Kept<S> kept,
                         int tile, int parts) {
  VITRINE_DYNAMIC_SHARED(char, shared);
  KeyGradients<S>(in, out, kept, tile, parts, shared).run(dk, dv);
}

/// `near`: the part of this forward that Hopper's kernels have computed; undefined if they have not
/// run.
template <class S, int kHeight>
void launch_forward(const AttentionForward& p, const Tensor& near = {}) {
  using T = AccumulatorOf<S>;
  const AttentionInputs<S> in = tiled_inputs<S, kHeight>(p, near);
  const AttentionOutputs<S> out{Heads<S>::of(p.y), in.laser ? Heads<S>{} : Heads<S>::of(p.kept),
                                in.laser ? Heads<T>::of(p.kept) : Heads<T>{}, p.lse.data<T>()};
  allow_shared<attention_kernel<S, kHeight>>();
  VITRINE_LAUNCH((attention_kernel<S, kHeight>), tile_grid(p.q, in.tile), tile_threads<kHeight>(in.tile),
                 shared_bytes<ForwardMemory<S>>(in.tile, in), in, out);
}

/// The same for the backward. `h` is LASER's H, where Hopper's kernels have written H of their
/// heads.
template <class S, int kHeight>
void launch_backward(const AttentionBackward& p, const Tensor& near = {}, Tensor h = {}) {
  using T = AccumulatorOf<S>;
  const AttentionInputs<S> in = tiled_inputs<S, kHeight>(p, near);
  const Device device = p.q.device();
  const int64_t heads = p.q.size(0) * p.q.size(1), tiles = (p.q.size(2) + in.tile - 1) / in.tile;
  Tensor corrections = empty({heads, p.q.size(2)}, p.lse.dtype(), device);
  Tensor anchors = empty({in.laser ? heads * tiles * 2 * in.channels : 0}, p.lse.dtype(), device);
  Tensor exact = empty({in.laser ? heads * tiles : 0}, DType::int32, device);
  if (!h.defined()) h = in.laser ? empty(p.dy.shape(), p.dy.dtype(), device) : p.dy;
  const Kept<S> between{corrections.data<T>(), anchors.data<T>(), exact.data<int32_t>(), Heads<S>::of(h)};
  const Cotangents<S> out{Heads<S>::of(p.dy),
                          Heads<S>::of(p.y),
                          in.laser ? Heads<S>{} : Heads<S>::of(p.kept),
                          in.laser ? Heads<T>::of(p.kept) : Heads<T>{},
                          p.lse.data<T>(),
                          p.dlse.defined() ? p.dlse.data<T>() : nullptr,
                          Heads<T>::of(p.dbias)};
  if (tiles > 0) {
    allow_shared<query_gradients_kernel<S, kHeight>>();
    VITRINE_LAUNCH((query_gradients_kernel<S, kHeight>), tile_grid(p.q, in.tile),
                   tile_threads<kHeight>(in.tile), shared_bytes<QueryMemory<S>>(in.tile, in),
                   Heads<S>::of(p.dq), in, out, between);
  }
  if (p.k.size(2) > 0) {
    const KeyTiles<S> keys(in, p.k.size(2));
    allow_shared<key_gradients_kernel<S>>();
    VITRINE_LAUNCH((key_gradients_kernel<S>), tile_grid(p.k, keys.tile, keys.parts),
                   tile_threads<1>(keys.tile), shared_bytes<KeyMemory<S>>(keys.tile, in), Heads<S>::of(p.dk),
                   Heads<S>::of(p.dv), in, out, between, keys.tile, keys.parts);
  }
}

}  // namespace vitrine::cuda
