// The backward of attention. With P = e^(s − lse), recomputed, and dP = dy·vᵀ:
//   ds = P∘(dP − D), D_i = Σ dy·y − dlse;   dq = scale·ds·k;   dk = scale·dsᵀ·q;   dv = Pᵀ·dy.
// LASER is the same with F in place of v and H = dy/(δ + Σ P·F) in place of dy; dv = e^(v −
// c)∘(Pᵀ·H). Elements that the forward read exactly have H = 0, and their terms are added one by
// one: b = e^(s + v)/Σ e^(s + v), dv += dy·b, ds += dy·b. One thread owns a key head, so that two
// threads never add to the same element. With bfloat16 operands P and ds are rounded to bfloat16
// before they are multiplied; gradients are summed in float32 and rounded once.
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "core/parallel.h"
#include "core/simd/row_functions.h"
#include "ops/cpu/attention/key_blocks.h"
#include "ops/cpu/attention/rows.h"
#include "ops/cpu/attention/tile.h"
#include "ops/kernels.h"

namespace vitrine::cpu {
namespace {

template <class T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();

/// The gradients of one head while they are summed: the result's own rows where it is wide, else a
/// buffer that is rounded into them at the end.
template <class S, Use kUse>
class Sums {
  using T = AccumulatorOf<S>;

 public:
  Sums(HeadRows<S> result, int64_t rows, int64_t columns) : result_(result), rows_(rows), columns_(columns) {
    if constexpr (std::is_same_v<S, T>)
      sums_ = result;
    else
      sums_ = {thread_buffer<T, kUse>(rows * columns), columns};
    for (int64_t i = 0; i < rows; ++i) std::fill_n(sums_.row(i), columns, T(0));
  }
  HeadRows<T> rows() const { return sums_; }
  void finish() const {
    if constexpr (!std::is_same_v<S, T>)
      scale_rows<S>(rows_, columns_, result_.data, nullptr, result_.stride, 0, sums_.data, sums_.stride,
                    nullptr);
  }

 private:
  HeadRows<S> result_;
  int64_t rows_, columns_;
  HeadRows<T> sums_;
};

/// The arrays that the backward of one query head reads and adds to. The packed keys and values
/// stay from head to head.
template <class S>
struct Gradients {
  using T = AccumulatorOf<S>;
  KeyBlocks<S, Use::packed_keys> keys{Trans::yes};
  KeyBlocks<S, Use::packed_key_rows> key_rows{Trans::no};
  LaserHead<S> laser;
  /// v, or F of LASER. LASER has another F for each tile if the head has none.
  KeyBlocks<S, Use::packed_values> values{Trans::yes};
  HeadRows<S> v{}, dy{}, dq{};
  HeadRows<S> y{}, error{};  // of a mean: y, and what it lost by rounding (null for nothing)
  HeadRows<T> sums{};        // of LASER
  HeadRows<T> dk{}, dv{};    // dv: Pᵀ·H until the end, if LASER has an F of the head
  const T* lse = nullptr;
  const T* dlse = nullptr;  // null for 0
  T* dbias = nullptr;       // [Tq, Tk], or null
  int64_t channels = 0;
};

template <class S>
class BackwardTile {
  using T = AccumulatorOf<S>;
  static constexpr bool kWide = std::is_same_v<S, T>;

 public:
  BackwardTile(const AttentionHead<S>& head, QueryTile tile, Gradients<S>& g)
      : head_(head),
        tile_(tile),
        g_(g),
        stride_(tile.stride()),
        scores_(thread_buffer<T, Use::scores>(tile.rows() * stride_)),
        slope_of_cap_(head.form.softcap > 0 ? thread_buffer<T, Use::slope_of_cap>(tile.rows() * stride_)
                                            : nullptr),
        dscores_(thread_buffer<T, Use::dscores>(tile.rows() * stride_)),
        weights_(rounded<Use::weights>(scores_)),
        rounded_dscores_(rounded<Use::rounded_dscores>(dscores_)) {}

  void run() {
    const Sums<S, Use::sums> dq({g_.dq.row(tile_.begin), g_.dq.stride}, tile_.rows(), head_.size);
    dq_ = dq.rows();
    if (tile_.first < tile_.last) {
      queries_ = packed_rows<Use::packed_queries>(head_.q.row(tile_.begin), head_.q.stride, head_.size);
      if (head_.form.read == AttentionRead::mean)
        run_mean();
      else if (g_.laser.is_shared())
        run_laser_of_head();
      else
        run_laser_of_tile();
    }
    dq.finish();
  }

 private:
  void run_mean() {
    // If one block holds all keys, D is Σ P·dP/Σ P, computed from the same numbers from which it is
    // subtracted. A single key then leaves exactly 0, and the rounding of lse, which scales a row
    // of P, does not matter.
    const bool all_keys = tile_.last - tile_.first <= kKeysPerBlock;
    for (int64_t r = 0; r < tile_.rows() && !all_keys; ++r) {
      const int64_t i = tile_.begin + r;
      correction_[r] = vecmath::dot(g_.dy.row(i), g_.y.row(i), g_.channels);
      if (g_.error.data != nullptr)
        correction_[r] += vecmath::dot(g_.dy.row(i), g_.error.row(i), g_.channels);
    }
    add_gradients({g_.dy.row(tile_.begin), g_.dy.stride}, all_keys ? nullptr : correction_.data());
  }

  void run_laser_of_head() {
    std::vector<S> h(static_cast<size_t>(tile_.rows() * g_.channels), S(0));
    laser_cotangents(g_.laser.anchors(), h.data());
    add_gradients({h.data(), g_.channels}, correction_.data());
  }

  /// Adds the tile's gradients, where the head's values had the cotangents dy.
  void add_gradients(HeadRows<S> dy, const T* correction) {
    cotangents_ = packed_rows<Use::packed_cotangents>(dy.data, dy.stride, g_.channels);
    for_each_block([&](int64_t j, int64_t n) {
      compute_scores(j, n);
      g_.values.multiply(tile_.rows(), T(1), dy.data, dy.stride, j, n, T(0), dscores_, stride_);
      score_gradients(j, n, correction, nullptr);
      add_products(weights_, cotangents_, n, T(1), g_.dv.row(j), g_.dv.stride);
      add_query_and_key_gradients(j, n);
    });
  }

  void run_laser_of_tile() {
    LaserTile<S> laser(head_, tile_, g_.v, g_.channels);
    std::vector<S> h(static_cast<size_t>(tile_.rows() * g_.channels), S(0));
    const std::vector<ExactRead<T>> repairs = laser_cotangents(laser.anchors(), h.data());
    cotangents_ = packed_rows<Use::packed_cotangents>(h.data(), g_.channels, g_.channels);
    T* const product = thread_buffer<T, Use::products>(tile_.keys() * g_.channels);
    T* const exact = repairs.empty() ? nullptr : thread_buffer<T, Use::exact>(tile_.rows() * stride_);
    for_each_block([&](int64_t j, int64_t n) {
      compute_scores(j, n);
      if (exact != nullptr) read_backward_exactly(repairs, j, n, exact);
      const S* const values = laser.values(j, n);
      gemm<S, T>(Trans::no, Trans::yes, tile_.rows(), n, g_.channels, T(1), h.data(), g_.channels, values,
                 g_.channels, T(0), dscores_, stride_);
      score_gradients(j, n, correction_.data(), exact);
      add_products(weights_, cotangents_, n, T(0), product, g_.channels);
      for (int64_t r = 0; r < n; ++r)
        laser_add_value_gradient(g_.dv.row(j + r), product + r * g_.channels, values + r * g_.channels,
                                 laser.anchors().delta.data(), g_.channels);
      add_query_and_key_gradients(j, n);
    });
  }

  /// Calls f(j, n) for each block of keys that is seen.
  template <class F>
  void for_each_block(F&& f) {
    for (int64_t j = tile_.first; j < tile_.last; j += kKeysPerBlock)
      if (const int64_t n = std::min(kKeysPerBlock, tile_.last - j); sees_any(head_, tile_, j, n)) f(j, n);
  }

  /// The tile's rows of a matrix, as the right operand of products that sum over the queries.
  template <Use kUse>
  PackedMatrix<S> packed_rows(const S* rows, int64_t stride, int64_t columns) const {
    float* const memory = thread_buffer<float, kUse>(packed_size<S>(columns, tile_.rows()));
    return pack<S>(Trans::no, columns, tile_.rows(), rows, stride, memory);
  }

  void compute_scores(int64_t j, int64_t n) {
    g_.keys.multiply(tile_.rows(), static_cast<T>(head_.form.scale), head_.q.row(tile_.begin), head_.q.stride,
                     j, n, T(0), scores_, stride_);
    finish_scores(head_, tile_.begin, tile_.rows(), j, n, scores_, stride_, slope_of_cap_);
  }

  /// From scores and dP to weights and ds, rounded to S.
  void score_gradients(int64_t j, int64_t n, const T* correction, const T* exact) {
    attention_score_gradients<S>(
        VisibleRows(head_, tile_, j, n),
        {weights_, rounded_dscores_, scores_, dscores_, g_.lse + tile_.begin, correction,
         g_.dlse == nullptr ? nullptr : g_.dlse + tile_.begin, slope_of_cap_, exact,
         g_.dbias == nullptr ? nullptr : g_.dbias + tile_.begin * head_.keys + j, head_.keys});
  }

  /// Memory for what is rounded to S: that of the numbers themselves if they have this type.
  template <Use kUse>
  S* rounded(T* numbers) const {
    if constexpr (kWide)
      return numbers;
    else
      return thread_buffer<S, kUse>(tile_.rows() * stride_);
  }

  /// sums = beta·sums + xᵀ·rows for x [rows of the tile, n].
  void add_products(const S* x, const PackedMatrix<S>& rows, int64_t n, T beta, T* sums,
                    int64_t stride) const {
    multiply<S, T>(Trans::yes, n, rows.N, rows.K, T(1), x, stride_, rows, beta, sums, stride);
  }

  /// dq += scale·ds·k, dk += scale·dsᵀ·q.
  void add_query_and_key_gradients(int64_t j, int64_t n) {
    const T scale = static_cast<T>(head_.form.scale);
    g_.key_rows.multiply(tile_.rows(), scale, rounded_dscores_, stride_, j, n, T(1), dq_.data, dq_.stride);
    multiply<S, T>(Trans::yes, n, head_.size, tile_.rows(), scale, rounded_dscores_, stride_, queries_, T(1),
                   g_.dk.row(j), g_.dk.stride);
  }

  /// Computes H and D of LASER; returns the elements that the forward read exactly.
  std::vector<ExactRead<T>> laser_cotangents(const LaserAnchors<T>& laser, S* cotangents) {
    std::vector<ExactRead<T>> repairs;
    for (int64_t r = 0; r < tile_.rows(); ++r) {
      const int64_t i = tile_.begin + r;
      if (g_.lse[i] == -kInfinity<T>) continue;
      S* const h = cotangents + r * g_.channels;
      const T* const sums = g_.sums.row(i);
      correction_[r] = laser_cotangent(h, g_.dy.row(i), sums, laser.delta.data(), g_.channels);
      const auto channels = laser.out_of_range(sums, head_.last_key(i) - head_.first_key(i));
      for (const int64_t d : channels) {
        // Rounding of h must not move what is subtracted from an exact term.
        const T rounded = static_cast<T>(h[d]);
        if (!kWide)
          correction_[r] +=
              static_cast<T>(g_.dy.row(i)[d]) - (std::isfinite(rounded) ? rounded * sums[d] : 0);
        h[d] = S(0);
      }
      const auto reads = read_exactly(head_, i, channels, g_.v);
      repairs.insert(repairs.end(), reads.begin(), reads.end());
    }
    return repairs;
  }

  void read_backward_exactly(const std::vector<ExactRead<T>>& repairs, int64_t j, int64_t n, T* ds) {
    std::fill(ds, ds + tile_.rows() * stride_, T(0));
    for (const ExactRead<T>& read : repairs) {
      const int64_t r = read.i - tile_.begin, d = read.channel;
      const T dy = static_cast<T>(g_.dy.row(read.i)[d]) / read.total;
      const Visible seen = visible(head_, read.i, j, n);
      for (int64_t c = seen.begin; c < seen.end; ++c) {
        if (scores_[r * stride_ + c] == -kInfinity<T>) continue;  // hidden; the value may be NaN
        const T b =
            dy * std::exp(scores_[r * stride_ + c] + static_cast<T>(g_.v.row(j + c)[d]) - read.largest);
        ds[r * stride_ + c] += b;
        g_.dv.row(j + c)[d] += b;
      }
    }
  }

  const AttentionHead<S>& head_;
  QueryTile tile_;
  Gradients<S>& g_;
  const int64_t stride_;
  T *scores_, *slope_of_cap_, *dscores_;
  S *weights_, *rounded_dscores_;  // P and ds as the products read them
  HeadRows<T> dq_{};
  PackedMatrix<S> queries_, cotangents_;
  std::array<T, kMostQueries> correction_{};
};

template <class S>
void backward(Tensor& dq, Tensor& dk, Tensor& dv, Tensor& dbias, const Tensor& dy, const Tensor& dlse,
              const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& y, const Tensor& kept,
              const Tensor& lse, const Tensor& bias, const Tensor& slopes, const Tensor& allowed,
              const AttentionForm& form) {
  using T = AccumulatorOf<S>;
  if (dbias.defined()) fill(dbias, 0);
  const int64_t heads = q.size(1), own = k.size(1), group = heads / own, queries = q.size(2);
  const bool laser = form.read == AttentionRead::laser;
  parallel_for(0, q.size(0) * own, 1, [&](int64_t begin, int64_t end) {
    Gradients<S> g;
    g.channels = v.size(3);
    for (int64_t item = begin; item < end; ++item) {
      const int64_t batch = item / own, key_head = item % own;
      const auto rows = [&](const Tensor& x, int64_t h) { return HeadRows<S>::of(x, batch, h); };
      const Sums<S, Use::key_gradients> key_sums(rows(dk, key_head), k.size(2), k.size(3));
      const Sums<S, Use::value_gradients> value_sums(rows(dv, key_head), k.size(2), v.size(3));
      g.dk = key_sums.rows(), g.dv = value_sums.rows();
      g.v = rows(v, key_head);
      for (int64_t h = key_head * group; h < (key_head + 1) * group; ++h) {
        const AttentionHead<S> head(form, q, k, bias, slopes, allowed, batch, h);
        if (h == key_head * group) {
          const bool packs = packs_keys(head);
          g.keys.refer_to(head.k, head.keys, head.size, packs);
          g.key_rows.refer_to(head.k, head.keys, head.size, packs);
          if (laser) g.laser.refer_to(head, g.v, g.channels);
          const bool shared = g.laser.is_shared();
          g.values.refer_to(shared ? g.laser.values() : g.v, head.keys, g.channels,
                            packs && (!laser || shared));
        }
        g.dy = rows(dy, h), g.dq = rows(dq, h);
        if (laser) g.sums = HeadRows<T>::of(kept, batch, h);
        if (!laser) g.y = rows(y, h);
        if (!laser && kept.defined()) g.error = rows(kept, h);
        const int64_t row = (batch * heads + h) * queries;
        g.lse = lse.data<T>() + row;
        if (dlse.defined()) g.dlse = dlse.data<T>() + row;
        if (dbias.defined()) g.dbias = dbias.data<T>() + row * k.size(2);
        for (int64_t tile = 0; tile < tiles_of(queries); ++tile)
          BackwardTile<S>(head, query_tile(head, tile), g).run();
      }
      if (g.laser.is_shared()) g.laser.finish_value_gradients(g.dv);
      key_sums.finish(), value_sums.finish();
    }
  });
}

}  // namespace

void attention_backward(Tensor& dq, Tensor& dk, Tensor& dv, Tensor& dbias, const Tensor& dy,
                        const Tensor& dlse, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& y, const Tensor& kept, const Tensor& lse, const Tensor& bias,
                        const Tensor& slopes, const Tensor& allowed, const AttentionForm& form) {
  const auto run = [&](auto f) {
    f(dq, dk, dv, dbias, dy, dlse, q, k, v, y, kept, lse, bias, slopes, allowed, form);
  };
  switch (q.dtype()) {
    case DType::float32: return run(backward<float>);
    case DType::float64: return run(backward<double>);
    case DType::bfloat16: return run(backward<bfloat16>);
    default: fail("attention: its kernel wants float32, float64 or bfloat16, got {}", name(q.dtype()));
  }
}

}  // namespace vitrine::cpu
