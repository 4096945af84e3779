#include "nn/attention/luong.h"

#include <cmath>
#include <utility>

#include "core/creation.h"
#include "nn/attention/scores.h"
#include "nn/init.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

double root(int64_t size) { return 1 / std::sqrt(static_cast<double>(size)); }

/// [1, 1, S] and [1, T, 1]: the positions of the states.
Tensor positions(int64_t first, int64_t count, const Shape& shape, const Tensor& like) {
  return reshape(
      arange(static_cast<double>(first), static_cast<double>(first + count), 1, like.dtype(), like.device()),
      shape);
}

}  // namespace

LuongAttention::LuongAttention(const LuongOptions& options, std::shared_ptr<const ReadOut> read)
    : options_(options), read_(std::move(read)) {
  LuongOptions& o = options_;
  if (o.out_width == 0) o.out_width = o.width;
  check(o.width > 0 && o.source_width > 0 && o.out_width > 0 && o.half_window >= 1,
        "LuongAttention: widths {}, {} and {} and a half window of {}, wanted numbers above 0", o.width,
        o.source_width, o.out_width, o.half_window);
  check(o.score != LuongScore::dot || o.width == o.source_width,
        "LuongAttention: the score `dot` of states with {} and {} channels, wanted equal numbers", o.width,
        o.source_width);
  const bool layer = o.score == LuongScore::concat || o.score == LuongScore::additive;
  check(layer || !o.coverage, "LuongAttention: the score {} reads no coverage; wanted concat or additive",
        name_of(o.score));
  check(
      o.view != LuongView::predictive || read_ == nullptr,
      "LuongAttention: a read of its own for the view local-p, whose weights do not sum to 1; wanted the mean");
  if (o.score == LuongScore::general)
    score_weight = normal({o.width, o.source_width}, root(o.width * o.source_width));
  if (layer) {
    score_weight = normal({o.width, o.width + o.source_width}, root(o.width + o.source_width));
    score_vector = normal({o.width}, root(o.width));
  }
  if (o.score == LuongScore::additive) score_bias = constant({o.width}, 0);
  if (o.coverage) coverage_weight = normal({o.width}, root(o.width));
  if (o.view == LuongView::predictive) {
    position_weight = normal({o.width, o.width}, root(o.width));
    position_vector = normal({o.width}, root(o.width));
  }
  combine_weight = normal({o.out_width, o.source_width + o.width}, root(o.source_width + o.width));
}

Tensor LuongAttention::scores(const Tensor& h, const Tensor& source, const Tensor& coverage) const {
  if (options_.score == LuongScore::dot) return matmul(h, transpose(source));
  const Tensor w = cast(score_weight, h.dtype());
  if (options_.score == LuongScore::general) return bilinear_scores(h, source, w);
  Tensor bias = score_bias.defined() ? cast(score_bias, h.dtype()) : Tensor();
  if (coverage.defined()) {
    const Tensor covered = unsqueeze(cast(coverage, h.dtype()), -1) * cast(coverage_weight, h.dtype());
    bias = bias.defined() ? bias + covered : covered;
  }
  return additive_scores(h, source, slice(w, 1, 0, h.size(-1)), slice(w, 1, h.size(-1), w.size(1)),
                         cast(score_vector, h.dtype()), bias);
}

/// p [B, T].
Tensor LuongAttention::predicted(const Tensor& h, const Tensor& visible, int64_t states) const {
  const Tensor hidden = tanh(matmul(h, transpose(cast(position_weight, h.dtype()))));
  const Tensor share = sigmoid(sum(hidden * cast(position_vector, h.dtype()), {-1}));
  if (!visible.defined()) return share * static_cast<double>(states);
  return share * cast(sum(visible, {-1}, KeepAxes::yes), h.dtype());
}

LuongAttention::Result LuongAttention::attend(const Tensor& h0, const Tensor& source0, const Tensor& visible,
                                              int64_t first, const Tensor& coverage) const {
  const LuongOptions& o = options_;
  check(h0.rank() == 3 && source0.rank() == 3 && h0.size(2) == o.width && source0.size(2) == o.source_width &&
            h0.size(0) == source0.size(0),
        "LuongAttention: h is {} and the source {}, wanted [B, T, {}] and [B, S, {}]", h0.shape(),
        source0.shape(), o.width, o.source_width);
  const Shape rows = {source0.size(0), source0.size(1)};
  check(!visible.defined() || (visible.shape() == rows && visible.dtype() == DType::boolean),
        "LuongAttention: visible is {}, wanted bool {}", describe(visible), rows);
  const Shape pairs = {h0.size(0), h0.size(1), source0.size(1)};
  check(coverage.defined() ? o.coverage && coverage.shape() == pairs : !o.coverage,
        "LuongAttention: the coverage is {}, wanted {}", describe(coverage),
        o.coverage ? fmt::format("{}", pairs) : "none, as the options say");
  // Sums are not rounded to 16 bits.
  const DType type = accumulation_dtype(h0.dtype());
  const Tensor h = cast(h0, type), source = cast(source0, type);
  Tensor seen = visible.defined() ? unsqueeze(visible, 1) : Tensor(), position, distance;
  if (o.view != LuongView::global) {
    if (o.view == LuongView::predictive) position = predicted(h, visible, rows[1]);
    const Tensor center =
        position.defined() ? unsqueeze(position, -1) : positions(first, h.size(1), {1, h.size(1), 1}, h);
    distance = positions(0, rows[1], {1, 1, rows[1]}, h) - center;
    // Padding before the source moves its states.
    if (visible.defined() && rows[1] > 0)
      distance = distance - cast(reshape(argmax(cast(visible, DType::int32), 1), {-1, 1, 1}), type);
    const Tensor near =
        less_equal(abs(detach(distance)), full_like(detach(distance), static_cast<double>(o.half_window)));
    seen = seen.defined() ? logical_and(seen, near) : near;
  }
  const Tensor all = scores(h, source, coverage), own = seen.defined() ? where(seen, all, -INFINITY) : all;
  Tensor weights = softmax(own);
  if (position.defined()) {
    const double deviation = static_cast<double>(o.half_window) / 2;
    weights = weights * exp(square(distance) * (-0.5 / (deviation * deviation)));
  }
  const Tensor context =
      read_ ? read_->read({weights, own, seen, seen.defined()}, source) : matmul(weights, source);
  return {cast(context, h0.dtype()), weights, position, seen};
}

Tensor LuongAttention::combine(const Tensor& context, const Tensor& h) const {
  return tanh(matmul(concat({context, h}, -1), transpose(cast(combine_weight, h.dtype()))));
}

void LuongAttention::fields(Fields& f) {
  f("score_weight", score_weight);
  f("score_vector", score_vector);
  f("score_bias", score_bias);
  f("coverage_weight", coverage_weight);
  f("position_weight", position_weight);
  f("position_vector", position_vector);
  f("combine_weight", combine_weight);
}

LuongAttention LuongAttention::clone() {
  return clone_into([this] { return LuongAttention(options_, read_); });
}

}  // namespace vitrine::nn
