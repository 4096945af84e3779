#include "ops/cpu/attention/tile.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/simd/row_functions.h"
#include "ops/cpu/attention/key_blocks.h"
#include "ops/cpu/attention/rows.h"

namespace vitrine::cpu {
namespace {

template <class T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();

/// The anchors for the keys [first, last) for which sees(j) holds. Without such a key the weights
/// of all rows are 0, and any anchor will do.
template <class S, class Sees>
LaserAnchors<AccumulatorOf<S>> anchors_of(HeadRows<S> v, int64_t channels, int64_t first, int64_t last,
                                          Sees sees) {
  using T = AccumulatorOf<S>;
  LaserAnchors<T> all{std::vector<T>(channels), std::vector<T>(channels)};
  std::vector<T> low(channels, kInfinity<T>), high(channels, -kInfinity<T>);
  bool any = false;
  for (int64_t j = first; j < last;) {
    int64_t end = j;
    while (end < last && sees(end)) ++end;
    laser_extend_range(low.data(), high.data(), v.row(j), v.stride, end - j, channels);
    any = any || end > j;
    j = end + 1;
  }
  if (!any) return all;
  laser_anchor(all.anchor.data(), all.delta.data(), low.data(), high.data(), channels);
  for (int64_t d = 0; d < channels; ++d)
    if (const T range = high[d] - low[d]; !(range <= all.range))
      all.range = std::isnan(range) ? kInfinity<T> : range;
  all.wide = std::ranges::find(all.delta, T(0)) != all.delta.end();
  return all;
}

}  // namespace

template <class S>
AttentionHead<S>::AttentionHead(const AttentionForm& form, const Tensor& q, const Tensor& k,
                                const Tensor& bias, const Tensor& slopes, const Tensor& allowed,
                                int64_t batch, int64_t head)
    : form(form),
      queries(q.size(2)),
      keys(k.size(2)),
      size(q.size(3)),
      q(HeadRows<S>::of(q, batch, head)),
      k(HeadRows<S>::of(k, batch, head / (q.size(1) / k.size(1)))) {
  if (slopes.defined()) slope = slopes.data<T>()[head];
  if (bias.defined()) {
    this->bias = HeadRows<T>::of(bias, batch, head).data;
    bias_row = bias.strides()[2], bias_column = bias.strides()[3];
  }
  if (allowed.defined()) {
    this->allowed = HeadRows<bool>::of(allowed, batch, head).data;
    allowed_row = allowed.strides()[2], allowed_column = allowed.strides()[3];
  }
}

template <class S>
void finish_scores(const AttentionHead<S>& head, int64_t i, int64_t rows, int64_t j, int64_t n,
                   AccumulatorOf<S>* scores, int64_t stride, AccumulatorOf<S>* slope_of_cap) {
  using T = AccumulatorOf<S>;
  const T cap = static_cast<T>(head.form.softcap);
  for (int64_t r = 0; r < rows; ++r) {
    T* const s = scores + r * stride;
    const auto [begin, end] = visible(head, i + r, j, n);
    if (cap > 0) {
      vecmath::scale(s, s, 1 / cap, n);
      vecmath::apply(vecmath::Function::tanh, s, s, n);
      if (slope_of_cap != nullptr)
        for (int64_t c = 0; c < n; ++c) slope_of_cap[r * stride + c] = 1 - s[c] * s[c];
      vecmath::scale(s, s, cap, n);
    }
    if (head.bias != nullptr) {
      const T* const bias = head.bias + (i + r) * head.bias_row + j * head.bias_column;
      for (int64_t c = begin; c < end; ++c) s[c] += bias[c * head.bias_column];
    }
    if (head.slope != 0)
      for (int64_t c = begin; c < end; ++c)
        s[c] -= head.slope * static_cast<T>(std::abs(j + c - head.position(i + r)));
    if (head.allowed != nullptr)
      for (int64_t c = begin; c < end; ++c)
        if (head.hides(i + r, j + c)) s[c] = -kInfinity<T>;
  }
}

template <class S>
LaserTile<S>::LaserTile(const AttentionHead<S>& head, const QueryTile& tile, HeadRows<S> v, int64_t channels)
    : v_(v), channels_(channels), first_(tile.first) {
  if (head.allowed != nullptr || head.bias != nullptr) {
    seen_.assign(static_cast<size_t>(std::max<int64_t>(0, tile.last - tile.first)), false);
    for (int64_t j = tile.first; j < tile.last; ++j)
      for (int64_t i = tile.begin; i < tile.end && !seen_[static_cast<size_t>(j - first_)]; ++i)
        if (j >= head.first_key(i) && j < head.last_key(i) && head.may_weigh(i, j))
          seen_[static_cast<size_t>(j - first_)] = true;
  }
  anchors_ = anchors_of(v, channels, tile.first, tile.last,
                        [&](int64_t j) { return seen_.empty() || seen_[static_cast<size_t>(j - first_)]; });
}

template <class S>
const S* LaserTile<S>::values(int64_t j, int64_t n) {
  S* const values = thread_buffer<S, Use::values>(n * channels_);
  for (int64_t r = 0; r < n; ++r) {
    S* const f = values + r * channels_;
    if (seen_.empty() || seen_[static_cast<size_t>(j + r - first_)]) {
      laser_values(f, v_.row(j + r), anchors_.anchor.data(), anchors_.deltas(), channels_);
    } else {
      std::fill_n(f, channels_, S(0));
    }
  }
  return values;
}

template <class S>
std::vector<ExactRead<AccumulatorOf<S>>> read_exactly(const AttentionHead<S>& head, int64_t i,
                                                      const std::vector<int64_t>& channels, HeadRows<S> v) {
  using T = AccumulatorOf<S>;
  if (channels.empty()) return {};
  const int64_t first = head.first_key(i), n = head.last_key(i) - first;
  std::vector<T> scores(static_cast<size_t>(n));
  gemm<S, T>(Trans::no, Trans::yes, 1, n, head.size, static_cast<T>(head.form.scale), head.q.row(i),
             head.q.stride, head.k.row(first), head.k.stride, T(0), scores.data(), n);
  finish_scores(head, i, 1, first, n, scores.data(), n);
  std::vector<ExactRead<T>> reads;
  for (const int64_t d : channels) {
    T largest = -kInfinity<T>, total = 0;
    const auto exponent = [&](int64_t j) {  // −∞ for a hidden key
      return scores[j] == -kInfinity<T> ? scores[j] : scores[j] + static_cast<T>(v.row(first + j)[d]);
    };
    for (int64_t j = 0; j < n; ++j) largest = std::max(largest, exponent(j));
    for (int64_t j = 0; j < n; ++j) total += std::exp(exponent(j) - largest);
    reads.push_back({i, d, largest, total});
  }
  return reads;
}

template <class T>
std::vector<int64_t> LaserAnchors<T>::out_of_range(const T* sums, int64_t keys) const {
  constexpr T kTrusted = T(1.67e-5);  // e⁻¹¹
  std::vector<int64_t> channels;
  for (size_t d = 0; wide && d < delta.size(); ++d)
    if (delta[d] == 0 && !(sums[d] >= static_cast<T>(keys) * kTrusted))
      channels.push_back(static_cast<int64_t>(d));
  return channels;
}

template <class S>
void LaserHead<S>::refer_to(const AttentionHead<S>& head, HeadRows<S> v, int64_t channels) {
  shared_ = false;
  if (head.allowed != nullptr || head.bias != nullptr || !packs_keys(head)) return;
  seen_ = head.last_key(head.queries - 1);
  anchors_ = anchors_of(v, channels, 0, seen_, [](int64_t) { return true; });
  shared_ = anchors_.range <= static_cast<T>(kShared);
  if (!shared_) return;
  values_ = {thread_buffer<S, Use::values>(head.keys * channels), channels};
  for (int64_t j = 0; j < seen_; ++j)
    laser_values(values_.row(j), v.row(j), anchors_.anchor.data(), anchors_.deltas(), channels);
}

template <class S>
void LaserHead<S>::finish_value_gradients(HeadRows<T> dv) const {
  const auto channels = static_cast<int64_t>(anchors_.delta.size());
  for (int64_t j = 0; j < seen_; ++j)
    laser_scale_value_gradient(dv.row(j), values_.row(j), anchors_.delta.data(), channels);
}

#define VITRINE_ATTENTION_TILE(S, T)                                                         \
  template struct AttentionHead<S>;                                                          \
  template std::vector<ExactRead<T>> read_exactly(const AttentionHead<S>&, int64_t,          \
                                                  const std::vector<int64_t>&, HeadRows<S>); \
  template class LaserTile<S>;                                                               \
  template class LaserHead<S>;                                                               \
  template void finish_scores(const AttentionHead<S>&, int64_t, int64_t, int64_t, int64_t, T*, int64_t, T*);
VITRINE_ATTENTION_TILE(float, float)
VITRINE_ATTENTION_TILE(double, double)
VITRINE_ATTENTION_TILE(bfloat16, float)
#undef VITRINE_ATTENTION_TILE
template struct LaserAnchors<float>;
template struct LaserAnchors<double>;

}  // namespace vitrine::cpu
