#include "nn/attention/pooling.h"

#include <cmath>

#include "nn/init.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace vitrine::nn {

AttentionPooling::AttentionPooling(int64_t width, int64_t hidden_width, std::shared_ptr<const ReadOut> read)
    : hidden(width, hidden_width, Bias::yes, 1 / std::sqrt(static_cast<double>(width))),
      query(normal({hidden_width}, 1 / std::sqrt(static_cast<double>(hidden_width)))),
      read_(read ? std::move(read) : std::make_shared<ReadOut>()) {}

AttentionPooling::Result AttentionPooling::attend(const Tensor& h, const Tensor& visible) const {
  const int64_t width = hidden.weight.shape()[1];
  check(h.rank() == 3 && h.size(2) == width, "AttentionPooling: h is {}, wanted [B, T, {}]", h.shape(),
        width);
  const Shape rows = {h.size(0), h.size(1)};
  check(!visible.defined() || (visible.shape() == rows && visible.dtype() == DType::boolean),
        "AttentionPooling: visible is {}, wanted bool {}", describe(visible), rows);
  // Sums are not rounded to 16 bits.
  const DType type = accumulation_dtype(h.dtype());
  const Tensor own = sum(tanh(cast(hidden.forward(h), type)) * cast(query, type), {-1});
  const Tensor scores = visible.defined() ? where(visible, own, -INFINITY) : own;
  const Tensor weights = softmax(scores);
  const auto as_heads = [&](const Tensor& x) {
    return x.defined() ? reshape(x, {rows[0], 1, 1, rows[1]}) : Tensor();
  };
  const Tensor y = read_->read({as_heads(weights), as_heads(scores), as_heads(visible), visible.defined()},
                               unsqueeze(cast(h, type), 1));
  return {cast(reshape(y, {rows[0], width}), h.dtype()), weights};
}

void AttentionPooling::fields(Fields& f) {
  f("hidden", hidden);
  f("query", query);
}

AttentionPooling AttentionPooling::clone() {
  return clone_into(
      [this] { return AttentionPooling(hidden.weight.shape()[1], hidden.weight.shape()[0], read_); });
}

}  // namespace vitrine::nn
