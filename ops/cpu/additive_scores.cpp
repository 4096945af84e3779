// The scores of additive attention. Nearly all the time is in tanh x = 1 − 2/(e^2x + 1) of the sums
// x = q + k. Because e^2x = e^2q·e^2k, exponentials are computed once for each element of q and k,
// and a pair costs a product and a division. Operands beyond kLargest might overflow in this
// product; pairs with them are computed from their sum.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/creation.h"
#include "core/memory/thread_buffer.h"
#include "core/parallel.h"
#include "ops/cpu/rows.h"
#include "ops/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/additive_scores.cpp"
#include "core/simd/dispatch.h"
#include "core/simd/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {
namespace {

/// tanh x, from e^2x.
template <class T>
HWY_INLINE Vec<T> tanh_of(Vec<T> exponential) {
  const Vec<T> one(1);
  return one - Vec<T>(2) / (exponential + one);
}

/// y = e^2x. Returns whether no |x| is larger than `largest`; a NaN is.
template <class T>
bool exponentials(T* y, const T* x, T largest, size_t n) {
  map(
      n, y, [](Vec<T> v) HWY_ATTR { return exp(v + v); }, x);
  return std::all_of(x, x + n, [=](T v) { return std::abs(v) <= largest; });
}

/// s[j] += w·tanh(q + k[j]); `exponentials` are those of k, or null.
template <class T>
void add_channel(T* s, const T* k, const T* exponentials, T q, T w, size_t n) {
  const Vec<T> own(exponentials == nullptr ? q : std::exp(2 * q)), weight(w);
  if (exponentials == nullptr)
    map(
        n, s, [=](Vec<T> sum, Vec<T> key) HWY_ATTR { return sum + weight * tanh(own + key); }, s, k);
  else
    map(
        n, s, [=](Vec<T> sum, Vec<T> key) HWY_ATTR { return sum + weight * tanh_of(own * key); }, s,
        exponentials);
}

/// Adds g[j] = ds[j]·(1 − t²), with t = tanh(q + k[j]), to `dk`. Returns Σ g and Σ ds·t.
/// `hidden` and `slopes` are buffers for n numbers.
template <class T>
std::array<T, 2> add_slopes(T* dk, const T* ds, const T* k, const T* exponentials, T q, T* hidden, T* slopes,
                            size_t n) {
  const Vec<T> own(exponentials == nullptr ? q : std::exp(2 * q)), one(1);
  if (exponentials == nullptr)
    map(
        n, hidden, [=](Vec<T> key) HWY_ATTR { return tanh(own + key); }, k);
  else
    map(
        n, hidden, [=](Vec<T> key) HWY_ATTR { return tanh_of(own * key); }, exponentials);
  map(
      n, slopes, [=](Vec<T> up, Vec<T> t) HWY_ATTR { return up * (one - t * t); }, ds, hidden);
  map(
      n, dk, [=](Vec<T> sum, Vec<T> slope) HWY_ATTR { return sum + slope; }, dk, slopes);
  return map_sums<T, 2>(
      n,
      [=](Vec<T> slope, Vec<T> up, Vec<T> t) HWY_ATTR {
        return std::array<Vec<T>, 2>{slope, up * t};
      },
      slopes, ds, hidden);
}

template <class T>
void scale(T* x, T by, size_t n) {
  const Vec<T> factor(by);
  map(
      n, x, [=](Vec<T> v) HWY_ATTR { return v * factor; }, x);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vitrine::cpu {
namespace {

enum class Use { hidden, slopes, exponentials };

constexpr double kLargest = 20;  // e^(2·20)² is below float's largest number

}  // namespace

void additive_scores(Tensor& s, const Tensor& q, const Tensor& k, const Tensor& w) {
  const int64_t channels = q.size(1), queries = q.size(2), keys = k.size(2);
  visit_wide(s.dtype(), "additive_scores", [&]<class T>(Type<T>) {
    // Of each channel, and whether they may be used.
    Tensor exponentials = empty_like(k);
    std::vector<char> in_range(static_cast<size_t>(q.size(0) * channels));
    parallel_for(0, q.size(0) * channels, grain_for(4 * keys), [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at)
        in_range[static_cast<size_t>(at)] =
            VITRINE_DISPATCH(exponentials<T>)(exponentials.data<T>() + at * keys, k.data<T>() + at * keys,
                                              static_cast<T>(kLargest), static_cast<size_t>(keys));
    });
    parallel_for(0, q.size(0) * queries, grain_for(4 * channels * keys), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t n = row / queries, i = row % queries;
        T* const to = s.data<T>() + row * keys;
        std::fill_n(to, keys, T(0));
        for (int64_t a = 0; a < channels; ++a) {
          const int64_t at = n * channels + a;
          const T own = q.data<T>()[at * queries + i];
          const bool products = in_range[static_cast<size_t>(at)] && std::abs(own) <= kLargest;
          VITRINE_DISPATCH(add_channel<T>)
          (to, k.data<T>() + at * keys, products ? exponentials.data<T>() + at * keys : nullptr, own,
           w.data<T>()[at], static_cast<size_t>(keys));
        }
      }
    });
  });
}

/// A thread owns a channel, so that two threads never add to the same element.
void additive_scores_backward(Tensor& dq, Tensor& dk, Tensor& dw, const Tensor& ds, const Tensor& q,
                              const Tensor& k, const Tensor& w) {
  const int64_t channels = q.size(1), queries = q.size(2), keys = k.size(2);
  visit_wide(ds.dtype(), "additive_scores_backward", [&]<class T>(Type<T>) {
    parallel_for(0, q.size(0) * channels, 1, [&](int64_t begin, int64_t end) {
      const auto n = static_cast<size_t>(keys);
      T *const hidden = detail::thread_buffer<T, Use::hidden>(n),
               *const slopes = detail::thread_buffer<T, Use::slopes>(n),
               *const exponentials = detail::thread_buffer<T, Use::exponentials>(n);
      for (int64_t at = begin; at < end; ++at) {
        const T weight = w.data<T>()[at];
        T* const to_keys = dk.data<T>() + at * keys;
        std::fill_n(to_keys, keys, T(0));
        const bool in_range = VITRINE_DISPATCH(exponentials<T>)(exponentials, k.data<T>() + at * keys,
                                                                static_cast<T>(kLargest), n);
        double of_weight = 0;
        for (int64_t i = 0; i < queries; ++i) {
          const T* const up = ds.data<T>() + (at / channels * queries + i) * keys;
          const T own = q.data<T>()[at * queries + i];
          const bool products = in_range && std::abs(own) <= kLargest;
          const auto [slope, of_hidden] =
              VITRINE_DISPATCH(add_slopes<T>)(to_keys, up, k.data<T>() + at * keys,
                                              products ? exponentials : nullptr, own, hidden, slopes, n);
          dq.data<T>()[at * queries + i] = weight * slope;
          of_weight += static_cast<double>(of_hidden);
        }
        VITRINE_DISPATCH(scale<T>)(to_keys, weight, n);
        dw.data<T>()[at] = static_cast<T>(of_weight);
      }
    });
  });
}

}  // namespace vitrine::cpu
#endif
