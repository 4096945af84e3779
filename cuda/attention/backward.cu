// The backward of attention. With P = e^(s − lse), computed again, and dP = dy·vᵀ:
//   ds = P∘(dP − D), D_i = Σ dy·y;   dq = scale·ds·k;   dk = scale·dsᵀ·q;   dv = Pᵀ·dy.
// LASER is the same with F in place of v and H = dy/(δ + Σ P·F) in place of dy; dv = e^(v − c)∘(Pᵀ·H). Elements that the forward
// read exactly have H = 0 and get their terms one by one: b = P·e^(v − o), dv += dy·b, ds += dy·b.
//
// Two kernels, so that no sum has two writers: in the first a block owns queries, in the second keys. The first leaves D and
// LASER's anchors for the second. That costs two products more than the textbook's five, and gives the same bits in every run.
#include "core/creation.h"
#include "cuda/attention/hopper.h"
#include "cuda/attention/launch.h"

namespace vitrine::cuda {
namespace {

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

}  // namespace

void attention_backward(Tensor& dq, Tensor& dk, Tensor& dv, const Tensor& dy, const Tensor& q,
                        const Tensor& k, const Tensor& v, const Tensor& y, const Tensor& kept,
                        const Tensor& lse, const Tensor& bias, const Tensor& slopes, const Tensor& allowed,
                        const AttentionForm& form) {
  const int64_t heads = q.size(0) * q.size(1);
  if (heads == 0) return fill(dk, 0), fill(dv, 0);  // keys that no query head reads
  if (q.size(0) > most_in_depth())
    return in_batches(q.size(0), [&](const auto& part) {
      Tensor part_of_dq = part(dq), part_of_dk = part(dk), part_of_dv = part(dv);
      attention_backward(part_of_dq, part_of_dk, part_of_dv, part(dy), part(q), part(k), part(v), part(y),
                         part(kept), part(lse), part(bias), slopes, part(allowed), form);
    });
  HopperRest rest;
  if (hopper_backward_supports(dy, q, k, v, bias, slopes, form)) {
    rest = hopper_attention_backward(dq, dk, dv, dy, q, k, v, y, kept, lse, allowed, form);
    if (rest.is_empty()) return;
  }
  const bool laser = form.read == AttentionRead::laser;
  const auto launch = [&](auto type, const auto& in, auto height) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    constexpr int kHeight = decltype(height)::value;
    const int64_t tiles = (q.size(2) + in.tile - 1) / in.tile;
    Tensor corrections = empty({heads, q.size(2)}, lse.dtype(), q.device());
    Tensor anchors = empty({laser ? heads * tiles * 2 * in.channels : 0}, lse.dtype(), q.device());
    Tensor exact = empty({laser ? heads * tiles : 0}, DType::int32, q.device());
    const Tensor h = !rest.is_empty() ? rest.cotangents
                     : laser          ? empty(dy.shape(), dy.dtype(), q.device())
                                      : dy;
    const Kept<S> between{corrections.data<T>(), anchors.data<T>(), exact.data<int32_t>(), Heads<S>::of(h)};
    const Cotangents<S> out{Heads<S>::of(dy), Heads<S>::of(y), laser ? Heads<S>{} : Heads<S>::of(kept),
                            laser ? Heads<T>::of(kept) : Heads<T>{}, lse.data<T>()};
    if (tiles > 0) {
      const size_t bytes = shared_bytes<QueryMemory<S>>("attention_backward", in.tile, in);
      allow_shared<query_gradients_kernel<S, kHeight>>();
      VITRINE_LAUNCH((query_gradients_kernel<S, kHeight>), tile_grid(q, in.tile),
                     tile_threads<kHeight>(in.tile), bytes, Heads<S>::of(dq), in, out, between);
    }
    if (k.size(2) > 0) {
      const int tile = tile_rows<KeyMemory<S>>(k.size(2), 16, in.size, in.channels, in.laser);
      const int parts = std::max(in.size, in.channels) <= KeyGradients<S>::kPartChannels ? 1 : 2;
      const size_t bytes = shared_bytes<KeyMemory<S>>("attention_backward", tile, in);
      allow_shared<key_gradients_kernel<S>>();
      VITRINE_LAUNCH((key_gradients_kernel<S>), tile_grid(k, tile, parts), tile_threads<1>(tile), bytes,
                     Heads<S>::of(dk), Heads<S>::of(dv), in, out, between, tile, parts);
    }
  };
  visit_attention("attention_backward", q, k, v, bias, slopes, allowed, form, rest.near, launch);
}

}  // namespace vitrine::cuda
