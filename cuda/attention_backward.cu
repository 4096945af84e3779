// The backward of attention. With P = e^(s − lse), computed again, and dP = dy·vᵀ:
//   ds = P∘(dP − D), D_i = Σ dy·y;   dq = scale·ds·k;   dk = scale·dsᵀ·q;   dv = Pᵀ·dy.
// LASER is the same with F in place of v and H = dy/(δ + Σ P·F) in place of dy; dv = e^(v − c)∘(Pᵀ·H). Elements that the forward
// read exactly have H = 0 and get their terms one by one: b = P·e^(v − o), dv += dy·b, ds += dy·b.
//
// Two kernels, so that no sum has two writers: in the first a block owns queries, in the second keys. The first leaves D and
// LASER's anchors for the second. That costs two products more than the textbook's five, and gives the same bits in every run.
#include "core/creation.h"
#include "cuda/attention_key_gradients.h"
#include "cuda/attention_query_gradients.h"

namespace vitrine::cuda {
namespace {

template <class S, int kPieces>
__global__ void query_gradients_kernel(Heads<S> dq, AttentionInputs<S> in, Cotangents<S> out,
                                       Kept<Wide<S>> kept) {
  VITRINE_DYNAMIC_SHARED(Wide<S>, shared);
  QueryGradients<S, kPieces>(in, out, kept, shared).run(dq);
}

template <class S, int kPieces>
__global__ void key_gradients_kernel(Heads<S> dk, Heads<S> dv, AttentionInputs<S> in, Cotangents<S> out,
                                     Kept<Wide<S>> kept, int tile) {
  VITRINE_DYNAMIC_SHARED(Wide<S>, shared);
  KeyGradients<S, kPieces>(in, out, kept, tile, shared).run(dk, dv);
}

}  // namespace

void attention_backward(Tensor& dq, Tensor& dk, Tensor& dv, const Tensor& dy, const Tensor& q,
                        const Tensor& k, const Tensor& v, const Tensor& sums, const Tensor& lse,
                        const Tensor& bias, const Tensor& slopes, const Tensor& allowed,
                        const AttentionForm& form) {
  const int64_t heads = q.size(0) * q.size(1);
  if (heads == 0) return;
  const auto launch = [&](auto type, const auto& in, auto pieces) {
    using S = typename decltype(type)::type;
    using T = Wide<S>;
    constexpr int kPieces = decltype(pieces)::value;
    const int64_t tiles = (q.size(2) + in.tile - 1) / in.tile;
    Tensor corrections = empty({heads, q.size(2)}, lse.dtype(), q.device());
    Tensor anchors = empty({in.laser ? heads * tiles * 2 * in.channels : 0}, lse.dtype(), q.device());
    Tensor exact = empty({in.laser ? heads * tiles : 0}, DType::int32, q.device());
    const Kept<T> kept{corrections.data<T>(), anchors.data<T>(), exact.data<int32_t>()};
    const Cotangents<S> out{Heads<S>::of(dy), Heads<T>::of(sums), lse.data<T>()};
    if (tiles > 0) {
      const size_t bytes = bytes_of<QueryMemory<T>, T>(in.tile, in.size, in.channels);
      allow_shared(query_gradients_kernel<S, kPieces>, bytes);
      VITRINE_LAUNCH((query_gradients_kernel<S, kPieces>), tile_grid(q, in.tile), tile_threads(in.tile),
                     bytes, Heads<S>::of(dq), in, out, kept);
    }
    if (k.size(2) > 0) {
      const int tile = tile_rows<T>(k.size(2), in.size, in.channels);
      const size_t bytes = bytes_of<KeyMemory<T>, T>(tile, in.size, in.channels);
      allow_shared(key_gradients_kernel<S, kPieces>, bytes);
      VITRINE_LAUNCH((key_gradients_kernel<S, kPieces>), tile_grid(k, tile), tile_threads(tile), bytes,
                     Heads<S>::of(dk), Heads<S>::of(dv), in, out, kept, tile);
    }
  };
  visit_attention("attention_backward", q, k, v, bias, slopes, allowed, form, launch);
}

}  // namespace vitrine::cuda
