// Attention's backward on Hopper, for bfloat16: the two kernels of
// cuda/attention/tiled_backward.cu, with the structure of cuda/attention/hopper.cu. Both kernels
// have the same source: a block owns 128 rows of one side, and loops over the other side, 64 rows
// at a time,
//
//   s = a·cᵀ,   g = b·dᵀ,   da = scale·ds·c,   and, if it owns keys, db = p·d,
//
// with (a, b) = (q, dy) and (c, d) = (k, v) or the other way round. Results stay in registers from
// the first row to the last, and weights and their gradients go from registers into the next
// product: only the copy engine writes to shared memory, and no sum has two writers. The weights
// and b·dᵀ are computed while other products run. LASER multiplies F and H in place of v and dy
// (cuda/attention/laser_operands.h), and dv = e^(v − c)∘(Pᵀ·H).
#pragma once

#include "cuda/attention/gradients.h"
#include "cuda/attention/hopper.h"
#include "cuda/instructions/exp2.h"
#include "cuda/instructions/pack.h"
#include "cuda/vector.h"

namespace vitrine::cuda::hopper_gradients {

using S = bfloat16;
constexpr int kMet = 64;  // rows of the other side per block
constexpr int kRing = 4;  // such blocks in shared memory

/// log₂ e · log Σ e^s of a query, and D. The first number is ∞ if the query sees no key or does not
/// exist, so that its weights are 0.
using QueryNumbers = Vector<float, 2>;

template <int kSize>
struct Tiles {
  struct Stage {
    BoxedTile<kMet, kSize> c, d;
    alignas(16) QueryNumbers queries[kMet];  // numbers of the queries, if the block owns keys
  };
  BoxedTile<kTileRows, kSize> a, b;
  Stage ring[kRing];
};

struct Barriers {
  PipelineSlot own, ring[kRing];
};

struct Inputs {
  Scores<float> scores;
  Schedule schedule;
  Heads<S> da, db, v, dy, y, rest;
  const float* lse;
  LaserAnchors laser;
  const float* corrections;     // LASER's D
  Heads<QueryNumbers> numbers;  // [B, H, whole tiles]: from the first kernel for the second
  int heads, group, size, channels;
};

/// Rows of one head from `begin` on, queries or keys.
template <bool kKeys>
struct Owned {
  int b, h, key_head, begin, end;  // key_head: of all batches
  bool elsewhere;                  // step tensor_core computes this tile

  __device__ Owned(const Inputs& in, int head, int tile) {
    const int heads = kKeys ? in.heads / in.group : in.heads;
    const int count = kKeys ? in.scores.keys : in.scores.queries;
    b = head / heads, h = head % heads;
    key_head = kKeys ? head : head / in.group;
    elsewhere = in.laser.near != nullptr && !is_near(in.laser.near, key_head);
    // The most queries see the first keys. The schedule begins with its last tiles, so tiles of
    // keys are reversed.
    begin = (kKeys ? in.schedule.tiles - 1 - tile : tile) * kTileRows;
    end = begin + kTileRows < count ? begin + kTileRows : count;
  }

  /// Calls f(query head, first row) for each block of the other side with any visible pair.
  template <class F>
  __device__ void for_met(const Inputs& in, F&& f) const {
    const Scores<float>& s = in.scores;
    const int first = kKeys ? s.first_query(begin) : s.first_key(begin);
    const int last = kKeys ? s.last_query(end - 1) : s.last_key(end - 1);
    const int end_head = kKeys ? (h + 1) * in.group : h + 1, first_met = first / kMet * kMet;
    // One loop, because a `wgmma` stays in flight from one iteration to the next.
    for (int head = kKeys ? h * in.group : h, at = first_met; at < last && head < end_head;) {
      f(head, at);
      at += kMet;
      if (at >= last) at = first_met, ++head;
    }
  }
};

/// The producer. Called by one warp; its first lane requests the tiles.
template <int kSize, bool kKeys>
__device__ void produce(Tiles<kSize>& tiles, Barriers& barriers, const Inputs& in, const TensorMap& a,
                        const TensorMap& b, const TensorMap& c, const TensorMap& d) {
  const int lane = static_cast<int>(threadIdx.x);
  unsigned block = 0, round = 0;
  in.schedule.for_tiles([&](int head, int tile) {
    const Owned<kKeys> own(in, head, tile);
    if (own.elsewhere) return;
    if (lane == 0) {
      Mbarrier& full = barriers.own.fill(round, sizeof(tiles.a) + sizeof(tiles.b));
      tiles.a.load(a, own.begin, own.h, own.b, full);
      tiles.b.load(b, own.begin, own.h, own.b, full);
    }
    ++round;
    own.for_met(in, [&](int query_head, int row) {
      auto& stage = tiles.ring[block % kRing];
      PipelineSlot& slot = barriers.ring[block % kRing];
      slot.wait_empty(block / kRing);
      if constexpr (kKeys) {  // two queries a lane
        static_assert(kMet == 2 * kWarp);
        const QueryNumbers* const two = in.numbers.rows(own.b, query_head).row(row + 2 * lane);
        store(stage.queries[2 * lane].at, load<4>(two->at));
      }
      if (lane == 0) {
        const int h = kKeys ? query_head : query_head / in.group;
        slot.full.arrive_expecting(sizeof(stage.c) + sizeof(stage.d));
        stage.c.load(c, row, h, own.b, slot.full);
        stage.d.load(d, row, h, own.b, slot.full);
      } else {
        slot.full.arrive();
      }
      ++block;
    });
  });
}

/// A consumer: a warpgroup with 64 rows of each tile.
template <int kSize, bool kKeys>
class Consumer {
 public:
  __device__ Consumer(Tiles<kSize>& tiles, Barriers& barriers, const Inputs& in)
      : tiles_(tiles),
        barriers_(barriers),
        in_(in),
        first_row_((static_cast<int>(threadIdx.x) / kWarpgroup - 1) * kOwnedRows),
        scale_(in.scores.scale * kLog2E) {}

  __device__ void run() {
    in_.schedule.for_tiles([&](int head, int tile) { attend(Owned<kKeys>(in_, head, tile)); });
  }

 private:
  static constexpr int kOwn = 2, kSums = kSize / 2, kScores = kMet / 2;
  using Weights = Fragment[kMet / kProductDepth];
  using Tile = BoxedTile<kTileRows, kSize>;
  using MetTile = BoxedTile<kMet, kSize>;

  __device__ void attend(const Owned<kKeys>& own) {
    if (own.elsewhere) return;
    float da[kSums], db[kKeys ? kSums : 1];
#pragma unroll
    for (float& x : da) x = 0;
#pragma unroll
    for (float& x : db) x = 0;
    const Scores<float> scores = in_.scores.of_head(own.b, kKeys ? own.h * in_.group : own.h);
    QueryNumbers numbers[kOwn];
    if constexpr (!kKeys) find_numbers(own, numbers);
    products_.begin(da);
    if constexpr (kKeys) products_.begin(db);
    Weights weights;  // for db, and then for da: there are no registers for both
    bool first = true;
    barriers_.own.wait(round_++);
    own.for_met(in_, [&](int query_head, int met) {
      const auto& stage = tiles_.ring[block_ % kRing];
      barriers_.ring[block_ % kRing].wait(block_ / kRing);
      float s[kScores], g[kScores];
      multiply_rows(s, tiles_.a, stage.c);
      multiply_rows(g, tiles_.b, stage.d);
      products_.template wait<2>();
      if (!first) barriers_.ring[(block_ - 1) % kRing].release();
      products_.template wait<1>();
      products_.finish(s);
      if (!is_plain(own, scores, met))
        hide(s, own, kKeys ? in_.scores.of_head(own.b, query_head) : scores, met);
      for_pairs(stage, numbers,
                [&](int e, const QueryNumbers& of) { s[e] = fast_exp2(std::fma(s[e], scale_, -of.at[0])); });
      if constexpr (kKeys) {
        add_products(db, weights, s, stage.d);
        products_.template wait<1>();
      } else {
        products_.template wait<0>();
      }
      products_.finish(g);
      for_pairs(stage, numbers,
                [&](int e, const QueryNumbers& of) { s[e] = score_gradient(s[e], g[e], of.at[1]); });
      products_.template wait<0>();
      if constexpr (kKeys) products_.finish(weights);
      add_products(da, weights, s, stage.c);
      ++block_, first = false;
    });
    products_.template wait<0>();
    products_.finish(da);
    if constexpr (kKeys) products_.finish(db);
    if (!first) barriers_.ring[(block_ - 1) % kRing].release();
    barriers_.own.release();
#pragma unroll
    for (float& x : da) x *= in_.scores.scale;
    write(in_.da, da, own, in_.size);
    if constexpr (kKeys) {
      if (in_.laser.anchors != nullptr) multiply_by_values(db, own);
      write(in_.db, db, own, in_.channels);
    }
  }

  /// Begins sums = x·yᵀ for this warpgroup's rows.
  __device__ void multiply_rows(float (&sums)[kScores], const Tile& x, const MetTile& y) {
    products_.begin(sums);
    products_.fence();
#pragma unroll
    for (int at = 0; at < kSize; at += kProductDepth)
      products_.template multiply_accumulate<S, true, true>(sums, x.by_rows(first_row_, at), y.by_rows(0, at),
                                                            at > 0);
    products_.commit();
  }

  /// Begins sums += x·y. Rounds x into `weights`.
  __device__ void add_products(float (&sums)[kSums], Weights& weights, const float (&x)[kScores],
                               const MetTile& y) {
    pack_fragments<S>(weights, x);
    products_.fence();
#pragma unroll
    for (int i = 0; i < kMet / kProductDepth; ++i)
      products_.template multiply_accumulate<S, false>(sums, weights[i], y.by_columns(i * kProductDepth));
    products_.commit();
  }

  /// Calls f(element, numbers of its query) for all elements of this thread.
  template <class F>
  __device__ void for_pairs(const typename Tiles<kSize>::Stage& stage, const QueryNumbers (&numbers)[kOwn],
                            F&& f) const {
#pragma unroll
    for (int at = 0; at < kMet / 8; ++at)
      if constexpr (kKeys) {
        const auto of = load<4>(stage.queries[at * 8 + static_cast<int>(threadIdx.x) % 4 * 2].at);
#pragma unroll
        for (int e = 0; e < 4; ++e) f(at * 4 + e, QueryNumbers{of.at[e % 2 * 2], of.at[e % 2 * 2 + 1]});
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) f(at * 4 + e, numbers[e / 2]);
      }
  }

  __device__ int row(const Owned<kKeys>& own, int of_thread) const {
    return own.begin + first_row_ + owned_row(of_thread);
  }

  __device__ bool is_plain(const Owned<kKeys>& own, const Scores<float>& scores, int met) const {
    const int begin = own.begin + first_row_, end = begin + kOwnedRows;
    return kKeys ? end <= scores.keys && scores.is_plain(met, met + kMet, begin, end)
                 : scores.is_plain(begin, end, met, met + kMet);
  }

  /// The product of a query with a hidden key becomes −∞.
  __device__ void hide(float (&x)[kScores], const Owned<kKeys>& own, const Scores<float>& scores,
                       int met) const {
#pragma unroll
    for (int of = 0; of < kOwn; ++of) {
      const int at = row(own, of);
      const int first = kKeys ? scores.first_query(at) : scores.first_key(at);
      const int last = at >= own.end ? 0 : kKeys ? scores.last_query(at) : scores.last_key(at);
      hide_columns(x, of, first - met, last - met, scores.allowed.data != nullptr, [&](int column) {
        const int other = met + column;
        return scores.is_allowed(kKeys ? other : at, kKeys ? at : other);
      });
    }
  }

  /// Computes the numbers of this thread's queries, and stores them for the second kernel.
  __device__ void find_numbers(const Owned<kKeys>& own, QueryNumbers (&numbers)[kOwn]) const {
    const HeadMatrix<S> dy = in_.dy.rows(own.b, own.h), y = in_.y.rows(own.b, own.h),
                        rest = in_.rest.rows(own.b, own.h);
    const float* const lse = in_.lse + (int64_t{own.b} * in_.heads + own.h) * in_.scores.queries;
    const int lane = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
    for (int of = 0; of < kOwn; ++of) {
      const int i = row(own, of);
      float sum = 0, log_sum = -INFINITY;
      if (i < own.end) {
        log_sum = lse[i];
        if (in_.corrections != nullptr && lane == 0) sum = in_.corrections[lse - in_.lse + i];
        for (int d = lane * 2; d < in_.channels && in_.corrections == nullptr; d += 8) {
          const auto up = load<2>(dy.row(i) + d);
          const auto out = load<2>(y.row(i) + d), lost = load<2>(rest.row(i) + d);
#pragma unroll
          for (int e = 0; e < 2; ++e)
            sum = std::fma(static_cast<float>(up.at[e]),
                           static_cast<float>(out.at[e]) + static_cast<float>(lost.at[e]), sum);
        }
      }
      sum = merge_row(sum, [](float x, float y) { return x + y; });
      numbers[of] = {log_sum == -INFINITY ? INFINITY : log_sum * kLog2E, sum};
      if (lane == 0) *in_.numbers.rows(own.b, own.h).row(i) = numbers[of];
    }
  }

  /// For LASER, multiplies the sums of keys by e^(v − c).
  __device__ void multiply_by_values(float (&sums)[kSums], const Owned<kKeys>& own) const {
    const HeadMatrix<S> v = in_.v.rows(own.b, own.h);
    const float* const anchors = in_.laser.of_head(own.key_head);
    for_owned_columns<kSize>(in_.channels, [&](int at, int d) {
      const auto c = load<2>(anchors + d);
#pragma unroll
      for (int of = 0; of < kOwn; ++of) {
        const int i = row(own, of) < own.end ? row(own, of) : own.begin;
        const auto values = load<2>(v.row(i) + d);
#pragma unroll
        for (int e = 0; e < 2; ++e)
          sums[at * 4 + of * 2 + e] *=
              fast_exp2(laser_exponent(static_cast<float>(values.at[e]), c.at[e]) * kLog2E);
      }
    });
  }

  __device__ void write(const Heads<S>& heads, const float (&x)[kSums], const Owned<kKeys>& own,
                        int columns) const {
    const HeadMatrix<S> rows = heads.rows(own.b, own.h);
#pragma unroll
    for (int of = 0; of < kOwn; ++of) {
      const int i = row(own, of);
      if (i >= own.end) continue;
      S* const to = rows.row(i);
      for_owned_columns<kSize>(columns, [&](int at, int d) {
        const int e = at * 4 + of * 2;
        store(to + d, Vector<S, 2>{S(x[e]), S(x[e + 1])});
      });
    }
  }

  Tiles<kSize>& tiles_;
  Barriers& barriers_;
  const Inputs& in_;
  const int first_row_;
  const float scale_;  // to powers of 2
  WarpgroupProducts products_;
  unsigned block_ = 0, round_ = 0;
};

}  // namespace vitrine::cuda::hopper_gradients
