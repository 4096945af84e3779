// Step 4, for bfloat16 and float16 on Hopper: as in the lower steps, a tile of queries goes through
// the keys block by block, but with the structure of cuda/matmul/hopper.cu. The design is from
// FlashAttention-3 (Shah et al. 2024).
//
// The gain: `mma` reaches about 60 % of the peak of these tensor cores, and waits for the softmax.
// Here
// - one thread loads q, k and v with the copy engine, two blocks of keys ahead;
// - `wgmma` reads q, k and v from shared memory, and weights from the registers of the softmax;
// - LASER multiplies F (cuda/attention/laser_operands.h) in place of v: o = c + log(1 + sum);
// - the scores of the next block are computed while the present weights are multiplied by the
//   values; the two warpgroups take turns, so that one multiplies while the other computes
//   exponentials.
#include "cuda/attention/hopper.h"
#include "cuda/attention/tensor_core.h"

namespace vitrine::cuda {
namespace {

constexpr int kKeys = kLaserKeys, kRing = 2;  // keys of a block, and blocks in shared memory
template <class S>
constexpr bool kLaser = std::is_same_v<S, bfloat16>;

/// kSize: channels of a head, padded with zeros.
template <int kSize>
struct Tiles {
  BoxedTile<kTileRows, kSize> q;
  BoxedTile<kKeys, kSize> k[kRing], v[kRing];
};

struct Barriers {
  PipelineSlot q, k[kRing], v[kRing];
  Mbarrier turn[kConsumers];
};

template <class S>
struct Inputs {
  Scores<float> scores;
  Schedule schedule;
  Heads<S> y, rest;   // rest: the rounding error of y, if it is saved
  Heads<float> kept;  // LASER's y before rounding
  float* lse;
  LaserAnchors laser;
  int heads, group, channels;  // of a batch; query heads of a key head; of a value
};

/// Queries of one head from `begin` on, and the blocks of keys that any of them sees.
struct Queries {
  Scores<float> scores;
  int b, h, key_head, begin, first, blocks;  // key_head: of all batches
  bool elsewhere;                            // of step tensor_core

  template <class S>
  __device__ Queries(const Inputs<S>& in, int head, int tile)
      : b(head / in.heads), h(head % in.heads), key_head(head / in.group), begin(tile * kTileRows) {
    scores = in.scores.of_head(b, h);
    const int end = begin + kTileRows < scores.queries ? begin + kTileRows : scores.queries;
    first = scores.first_key(begin) / kKeys * kKeys;
    const int last = scores.last_key(end - 1);
    blocks = last > first ? (last - first + kKeys - 1) / kKeys : 0;
    elsewhere = in.laser.near != nullptr && !is_near(in.laser.near, key_head, scores, begin);
  }
};

template <class S, int kSize>
__device__ void produce(Tiles<kSize>& tiles, Barriers& barriers, const Inputs<S>& in, const TensorMap& q,
                        const TensorMap& k, const TensorMap& v) {
  unsigned block = 0, round = 0;  // of keys, and of queries
  in.schedule.for_tiles([&](int head, int tile) {
    const Queries queries(in, head, tile);
    if (queries.blocks == 0 || queries.elsewhere) return;
    const int key_head = queries.h / in.group;
    tiles.q.load(q, queries.begin, queries.h, queries.b, barriers.q.fill(round++, sizeof(tiles.q)));
    for (int n = 0; n < queries.blocks; ++n, ++block) {
      const int at = block % kRing, row = queries.first + n * kKeys;
      tiles.k[at].load(k, row, key_head, queries.b, barriers.k[at].fill(block / kRing, sizeof(tiles.k[0])));
      tiles.v[at].load(v, row, key_head, queries.b, barriers.v[at].fill(block / kRing, sizeof(tiles.v[0])));
    }
  });
}

/// A warpgroup's 64 queries of each tile.
template <class S, int kSize>
class Consumer {
 public:
  __device__ Consumer(Tiles<kSize>& tiles, Barriers& barriers, const Inputs<S>& in)
      : tiles_(tiles),
        barriers_(barriers),
        in_(in),
        warpgroup_(static_cast<int>(threadIdx.x) / kWarpgroup - 1),
        scale_(in.scores.scale * kLog2E) {}

  __device__ void run() {
    in_.schedule.for_tiles([&](int head, int tile) { attend(Queries(in_, head, tile)); });
  }

 private:
  static constexpr int kOwn = 2;  // rows of a thread

  __device__ void attend(const Queries& queries) {
    if (queries.elsewhere) return;
    float y[kSize / 2], largest[kOwn], total[kOwn];
#pragma unroll
    for (int i = 0; i < kSize / 2; ++i) y[i] = 0;
#pragma unroll
    for (int own = 0; own < kOwn; ++own) largest[own] = -INFINITY, total[own] = 0;
    if (queries.blocks > 0) {
      float scores[kKeys / 2], factor[kOwn], past[kOwn];
      Fragment weights[kKeys / kProductDepth];
      barriers_.q.wait(round_++);
      multiply_keys(scores, block_);
      products_.template wait<0>();
      products_.finish(scores);
      barriers_.k[block_ % kRing].release();
      weigh(scores, queries, 0, largest, total, factor);
      pack_fragments<S>(weights, scores);
#pragma unroll 1
      for (int n = 1; n < queries.blocks; ++n, ++block_) {
        const unsigned next = block_ + 1;
        // Asked early: the answer comes from memory.
        const bool moves = kLaser<S> && in_.laser.moves(queries.key_head, queries.first / kKeys + n);
        barriers_.turn[warpgroup_].wait((turn_ + 1 + warpgroup_) % 2);
        multiply_keys(scores, next);
        multiply_values(y, weights, block_);
        pass_turn();
        products_.template wait<1>();
        products_.finish(scores);
        barriers_.k[next % kRing].release();
#pragma unroll
        for (int own = 0; own < kOwn; ++own) past[own] = total[own];
        weigh(scores, queries, n, largest, total, factor);
        products_.template wait<0>();
        products_.finish(y);
        products_.finish(weights);
        barriers_.v[block_ % kRing].release();
#pragma unroll
        for (int i = 0; i < kSize / 2; ++i) y[i] *= factor[i / 2 % 2];
        if constexpr (kLaser<S>)
          if (moves) move(y, queries, n, past, factor);
        pack_fragments<S>(weights, scores);
      }
      barriers_.q.release();
      multiply_values(y, weights, block_);
      products_.template wait<0>();
      products_.finish(y);
      barriers_.v[block_++ % kRing].release();
    }
    divide(y, total);
    if (kLaser<S> && in_.laser.anchors != nullptr) read(y, queries, total);
    write(queries, y, largest, total);
  }

  /// Begins scores = q·kᵀ for a block of keys.
  __device__ void multiply_keys(float (&scores)[kKeys / 2], unsigned block) {
    barriers_.k[block % kRing].wait(block / kRing);
    products_.begin(scores);
    products_.fence();
#pragma unroll
    for (int at = 0; at < kSize; at += kProductDepth)
      products_.template multiply_accumulate<S, true, true>(scores,
                                                            tiles_.q.by_rows(warpgroup_ * kOwnedRows, at),
                                                            tiles_.k[block % kRing].by_rows(0, at), at > 0);
    products_.commit();
  }

  /// Begins y += weights·v.
  __device__ void multiply_values(float (&y)[kSize / 2], const Fragment (&weights)[kKeys / kProductDepth],
                                  unsigned block) {
    barriers_.v[block % kRing].wait(block / kRing);
    products_.begin(y);
    products_.fence();
#pragma unroll
    for (int i = 0; i < kKeys / kProductDepth; ++i)
      products_.template multiply_accumulate<S, false>(y, weights[i],
                                                       tiles_.v[block % kRing].by_columns(i * kProductDepth));
    products_.commit();
  }

  /// Lets the other warpgroup multiply.
  __device__ void pass_turn() {
    if (threadIdx.x % 32 == 0) barriers_.turn[1 - warpgroup_].arrive();
    ++turn_;
  }

  __device__ int row(const Queries& queries, int own) const {
    return queries.begin + warpgroup_ * kOwnedRows + owned_row(own);
  }

  /// Products q·k with block n become weights e^(scale·(q·k − largest)). `factor` becomes the
  /// factor of earlier sums.
  __device__ void weigh(float (&x)[kKeys / 2], const Queries& queries, int n, float (&largest)[kOwn],
                        float (&total)[kOwn], float (&factor)[kOwn]) {
    const int j = queries.first + n * kKeys, begin = queries.begin + warpgroup_ * kOwnedRows;
    if (!queries.scores.is_plain(begin, begin + kOwnedRows, j, j + kKeys)) hide(x, queries, j);
#pragma unroll
    for (int own = 0; own < kOwn; ++own) {
      float most = largest[own];
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i)
        if (i / 2 % 2 == own) most = std::fmax(most, x[i]);
      most = merge_row(most, [](float a, float b) { return std::fmax(a, b); });
      const float shift = most == -INFINITY ? 0 : most * scale_;
      // From the difference, so that an unchanged maximum has exactly the factor 1 for any rounding
      // of the shift: there are many blocks.
      factor[own] = fast_exp2((largest[own] - (most == -INFINITY ? 0 : most)) * scale_);
      largest[own] = most;
      float sum = 0;
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i)
        if (i / 2 % 2 == own) sum += x[i] = fast_exp2(std::fma(x[i], scale_, -shift));
      total[own] = std::fma(total[own], factor[own], sum);
    }
  }

  /// LASER's sums p·F follow the anchors from block n − 1 to block n: with f = e^(c − c′), Σ p·F′ =
  /// f·Σ p·F + (f − 1)·Σ p. `past` is this thread's part of Σ p without block n. It is not computed
  /// from the total with block n, because f would magnify the rounding error.
  __device__ void move(float (&y)[kSize / 2], const Queries& queries, int n, const float (&past)[kOwn],
                       const float (&factor)[kOwn]) const {
    // Anchors move by more only if there were no values before, and then 0 stays 0.
    constexpr float kMostMove = 80;
    const int block = queries.first / kKeys + n;
    const float* const from = in_.laser.of_block(queries.key_head, block - 1);
    const float* const to = in_.laser.of_block(queries.key_head, block);
    float total[kOwn];
#pragma unroll
    for (int own = 0; own < kOwn; ++own)
      total[own] = merge_row(past[own] * factor[own], [](float a, float b) { return a + b; });
    for_owned_columns<kSize>(in_.channels, [&](int at, int d) {
      const auto old = load<2>(from + d), now = load<2>(to + d);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float f = fast_exp2(std::fmin(old.at[e % 2] - now.at[e % 2], kMostMove) * kLog2E);
        y[at * 4 + e] = std::fma(y[at * 4 + e], f, (f - 1) * total[e / 2]);
      }
    });
  }

  /// Products with hidden keys, from j on, become −∞.
  __device__ void hide(float (&x)[kKeys / 2], const Queries& queries, int j) const {
    const Scores<float>& s = queries.scores;
#pragma unroll
    for (int own = 0; own < kOwn; ++own) {
      const int i = row(queries, own), last = i < s.queries ? s.last_key(i) : 0;
      hide_columns(x, own, s.first_key(i) - j, last - j, s.allowed.data != nullptr,
                   [&](int column) { return s.is_allowed(i, j + column); });
    }
  }

  /// Sums become averages.
  __device__ void divide(float (&y)[kSize / 2], float (&total)[kOwn]) const {
#pragma unroll
    for (int own = 0; own < kOwn; ++own) {
      total[own] = merge_row(total[own], [](float a, float b) { return a + b; });
      const float share = total[own] == 0 ? 0 : 1 / total[own];
#pragma unroll
      for (int i = 0; i < kSize / 2; ++i)
        if (i / 2 % 2 == own) y[i] *= share;
    }
  }

  /// Averages of F become LASER's o.
  __device__ void read(float (&y)[kSize / 2], const Queries& queries, const float (&total)[kOwn]) const {
    if (queries.blocks == 0) return;
    const float* const anchors =
        in_.laser.of_block(queries.key_head, queries.first / kKeys + queries.blocks - 1);
    constexpr int kTogether = 2;  // loads that are in flight at the same time
#pragma unroll
    for (int first = 0; first < kSize / 8; first += kTogether) {
      Vector<float, 2> c[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i)
        if (const int d = owned_column((first + i) * 4); d < in_.channels) c[i] = load<2>(anchors + d);
#pragma unroll
      for (int i = 0; i < 4 * kTogether; ++i) {
        float& element = y[4 * first + i];
        const float o = c[i / 4].at[i % 2] + fast_log1p(element);
        element = total[i / 2 % 2] != 0 ? o : element;
      }
    }
  }

  __device__ void write(const Queries& queries, const float (&y)[kSize / 2], const float (&largest)[kOwn],
                        const float (&total)[kOwn]) const {
    const HeadMatrix<S> rows = in_.y.rows(queries.b, queries.h), rest = in_.rest.rows(queries.b, queries.h);
    const HeadMatrix<float> kept = in_.kept.rows(queries.b, queries.h);
    float* const lse = in_.lse + (int64_t{queries.b} * in_.heads + queries.h) * queries.scores.queries;
#pragma unroll
    for (int own = 0; own < kOwn; ++own) {
      const int i = row(queries, own);
      if (i >= queries.scores.queries) continue;
      if (threadIdx.x % 4 == 0)
        lse[i] = total[own] == 0 ? -INFINITY : std::fma(largest[own], in_.scores.scale, std::log(total[own]));
      const auto store_row = [&]<class X>(X* to, const auto& value) {
        for_owned_columns<kSize>(in_.channels, [&](int at, int d) {
          const int e = at * 4 + own * 2;
          store(to + d, Vector<X, 2>{value(y[e]), value(y[e + 1])});
        });
      };
      store_row(rows.row(i), [](float x) { return S(x); });
      if (in_.rest.data) store_row(rest.row(i), [](float x) { return S(x - static_cast<float>(S(x))); });
      if (kLaser<S> && in_.kept.data) store_row(kept.row(i), [](float x) { return x; });
    }
  }

  Tiles<kSize>& tiles_;
  Barriers& barriers_;
  const Inputs<S>& in_;
  const int warpgroup_;
  const float scale_;  // to powers of 2
  WarpgroupProducts products_;
  unsigned block_ = 0, round_ = 0, turn_ = 0;
};

template <class S, int kSize>
__global__ void __launch_bounds__(kHopperThreads, 1)
    attention_hopper_kernel(const Inputs<S> in, const __grid_constant__ TensorMap q,
                            const __grid_constant__ TensorMap k, const __grid_constant__ TensorMap v) {
#if VITRINE_HAS_WGMMA
  __shared__ Barriers barriers;
  auto& tiles = aligned_shared<Tiles<kSize>>();
  if (threadIdx.x == 0) {
    barriers.q.init();
    for (int i = 0; i < kRing; ++i) barriers.k[i].init(), barriers.v[i].init();
    for (Mbarrier& turn : barriers.turn) turn.init(kWarpgroup / kWarp);
    Mbarrier::fence_init();
  }
  __syncthreads();
  if (threadIdx.x < kWarpgroup) {
    give_registers<kProducerRegisters>();
    if (threadIdx.x == 0) produce(tiles, barriers, in, q, k, v);
  } else {
    take_registers<kConsumerRegisters>();
    Consumer<S, kSize>(tiles, barriers, in).run();
  }
#endif
}

/// Whether more than one tile of queries uses LASER's operands. With one tile, as in decoding, F
/// would be read no more often than v.
bool laser_pays(const Tensor& q, const Tensor& k) {
  constexpr int64_t kMostHeads = 65535;  // of a grid
  return q.size(2) * q.size(1) > kTileRows * k.size(1) && q.size(1) <= kMostHeads;
}

}  // namespace

// Supports heads up to 128 channels of 16 bits that the copy engine can read, with scores scale·q·k
// (or hidden); LASER in bfloat16.
bool hopper_attention_supports(const AttentionForward& p) {
  const Tensor &q = p.q, &k = p.k, &v = p.v;
  const AttentionForm& form = p.form;
  const bool plain = form.softcap == 0 && form.scale > 0 && !p.bias.defined() && !p.slopes.defined() &&
                     (form.read == AttentionRead::mean || q.dtype() == DType::bfloat16);
  const bool fits = std::max(q.size(3), v.size(3)) <= kHopperSizes[1] && v.size(3) % 2 == 0 &&
                    q.numel() / std::max<int64_t>(q.size(3), 1) < INT32_MAX;
  return plain && fits && (form.read == AttentionRead::mean || laser_pays(q, k)) && has_tensor_map(q) &&
         has_tensor_map(k) && has_tensor_map(v) && has_wgmma() &&
         sizeof(Tiles<kHopperSizes[1]>) + kAlignment <= most_shared();
}

void hopper_attention(const AttentionForward& p) {
  const Tensor &q = p.q, &k = p.k, &v = p.v;
  const bool laser = p.form.read == AttentionRead::laser;
  const Scores<float> scores = Scores<float>::of(q, k, {}, {}, p.allowed, p.form);
  std::optional<LaserBlocks> blocks_of_keys;
  if (laser) blocks_of_keys.emplace(v, scores, p.allowed, false);
  const Tensor values = laser ? blocks_of_keys->values(v) : v;
  const auto launch = [&](auto type, auto size) {
    using S = typename decltype(type)::type;
    constexpr int kSize = decltype(size)::value;
    const int64_t group = q.size(1) / k.size(1), bytes_met = k.size(2) * kSize * 2 * 2 / group;
    const Inputs<S> in{scores,
                       Schedule::of(q.size(2), q.size(0) * q.size(1), bytes_met),
                       Heads<S>::of(p.y),
                       laser ? Heads<S>{} : Heads<S>::of(p.kept),
                       laser ? Heads<float>::of(p.kept) : Heads<float>{},
                       p.lse.data<float>(),
                       laser ? blocks_of_keys->anchors() : LaserAnchors{},
                       static_cast<int>(q.size(1)),
                       static_cast<int>(group),
                       static_cast<int>(v.size(3))};
    const int blocks = std::min(in.schedule.count(), multiprocessors());
    allow_shared<attention_hopper_kernel<S, kSize>>();
    VITRINE_LAUNCH((attention_hopper_kernel<S, kSize>), static_cast<unsigned>(blocks), kHopperThreads,
                   sizeof(Tiles<kSize>) + kAlignment, in, tensor_map(q), tensor_map(k), tensor_map(values));
  };
  visit_hopper_size(q, v, [&](auto size) {
    q.dtype() == DType::bfloat16 ? launch(Type<bfloat16>(), size) : launch(Type<float16>(), size);
  });
  if (laser) tensor_core_attention(p, blocks_of_keys->near());
}

}  // namespace vitrine::cuda
