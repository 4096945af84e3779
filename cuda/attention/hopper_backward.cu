// The backward of step 4, for bfloat16: the launches of cuda/attention/hopper_gradients.h.
#include "core/creation.h"
#include "cuda/attention/hopper_gradients.h"
#include "cuda/attention/tensor_core.h"

namespace vitrine::cuda {
namespace {

using namespace hopper_gradients;

template <int kSize, bool kKeys>
__global__ void __launch_bounds__(kHopperThreads, 1)
    hopper_gradients_kernel(const Inputs in, const __grid_constant__ TensorMap a,
                            const __grid_constant__ TensorMap b, const __grid_constant__ TensorMap c,
                            const __grid_constant__ TensorMap d) {
#if VITRINE_HAS_WGMMA
  __shared__ Barriers barriers;
  auto& tiles = aligned_shared<Tiles<kSize>>();
  if (threadIdx.x == 0) {
    barriers.own.init();
    for (PipelineSlot& slot : barriers.ring) slot.init(kWarp);
    Mbarrier::fence_init();
  }
  __syncthreads();
  if (threadIdx.x < kWarpgroup) {
    give_registers<kProducerRegisters>();
    if (threadIdx.x < kWarp) produce<kSize, kKeys>(tiles, barriers, in, a, b, c, d);
  } else {
    take_registers<kConsumerRegisters>();
    Consumer<kSize, kKeys>(tiles, barriers, in).run();
  }
#endif
}

template <int kSize, bool kKeys>
void launch(const Inputs& in, const TensorMap& a, const TensorMap& b, const TensorMap& c,
            const TensorMap& d) {
  allow_shared<hopper_gradients_kernel<kSize, kKeys>>();
  VITRINE_LAUNCH((hopper_gradients_kernel<kSize, kKeys>),
                 static_cast<unsigned>(std::min(in.schedule.count(), multiprocessors())), kHopperThreads,
                 sizeof(Tiles<kSize>) + kAlignment, in, a, b, c, d);
}

}  // namespace

bool hopper_attention_backward_supports(const AttentionBackward& p) {
  return p.q.dtype() == DType::bfloat16 && hopper_attention_supports(p) && !p.dlse.defined() &&
         !p.dbias.defined() && has_tensor_map(p.dy) && p.q.size(3) % 2 == 0 &&
         sizeof(Tiles<kHopperSizes[1]>) + kAlignment <= most_shared();
}

void hopper_attention_backward(const AttentionBackward& p) {
  const Tensor &q = p.q, &k = p.k, &v = p.v, &dy = p.dy;
  const Scores<float> scores = Scores<float>::of(q, k, {}, {}, p.allowed, p.form);
  const bool laser = p.form.read == AttentionRead::laser;
  std::optional<LaserBlocks> blocks_of_keys;
  Tensor values = v, cotangents = dy, corrections;
  if (laser) {
    blocks_of_keys.emplace(v, scores, p.allowed, true);
    values = blocks_of_keys->values(v), cotangents = copyable_heads(dy);
    corrections = empty(p.lse.shape(), DType::float32, q.device());
    blocks_of_keys->cotangents(cotangents, corrections, dy, p.kept, p.lse);
  }
  const auto run = [&](auto size) {
    constexpr int kSize = decltype(size)::value;
    const int64_t heads = q.size(0) * q.size(1), group = q.size(1) / k.size(1), row = kSize * 2 * 2;
    const Schedule queries = Schedule::of(q.size(2), heads, k.size(2) * row / group);
    const int padded = queries.tiles * kTileRows;
    Tensor numbers = empty({heads, padded, 2}, DType::float32, q.device());
    Inputs in{scores,
              queries,
              Heads<S>::of(p.dq),
              {},
              Heads<S>::of(v),
              Heads<S>::of(dy),
              Heads<S>::of(p.y),
              laser ? Heads<S>{} : Heads<S>::of(p.kept),
              p.lse.data<float>(),
              laser ? blocks_of_keys->anchors() : LaserAnchors{},
              laser ? corrections.data<float>() : nullptr,
              {reinterpret_cast<QueryNumbers*>(numbers.data<float>()), q.size(1) * padded, padded, 1},
              static_cast<int>(q.size(1)),
              static_cast<int>(group),
              static_cast<int>(q.size(3)),
              static_cast<int>(v.size(3))};
    const TensorMap of_q = tensor_map(q), of_k = tensor_map(k), of_v = tensor_map(values),
                    of_dy = tensor_map(cotangents);
    launch<kSize, false>(in, of_q, of_dy, of_k, of_v);
    in.schedule = Schedule::of(k.size(2), heads / group, q.size(2) * row * group);
    in.da = Heads<S>::of(p.dk), in.db = Heads<S>::of(p.dv);
    launch<kSize, true>(in, of_k, of_v, of_q, of_dy);
  };
  visit_hopper_size(q, v, run);
  if (laser) tensor_core_attention_backward(p, blocks_of_keys->near(), cotangents);
}

}  // namespace vitrine::cuda
