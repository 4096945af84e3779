#include "nn/attention/alignment.h"

#include <cmath>
#include <utility>

#include "nn/init.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

/// What the weights [B, T, S] read of y [B, S, C]; the mask of y, bool [B, S], may be undefined.
/// `empty_rows`: a row of scores may be −∞ alone.
Tensor read_side(const ReadOut& read, const Tensor& weights, const Tensor& scores, const Tensor& y,
                 const Tensor& mask, bool empty_rows) {
  return read.read({weights, scores, mask.defined() ? unsqueeze(mask, 1) : Tensor(), empty_rows}, y);
}

/// Scores [B, T, S] in which keys that are not visible, bool [B, S], are −∞.
Tensor hide(const Tensor& scores, const Tensor& visible) {
  return visible.defined() ? where(unsqueeze(visible, 1), scores, -INFINITY) : scores;
}

void check_pair(const char* name, const Tensor& x, const Tensor& y, const Tensor& x_mask,
                const Tensor& y_mask) {
  check(x.rank() == 3 && y.rank() == 3 && x.size(0) == y.size(0) && x.size(2) == y.size(2),
        "{}: the sequences are {} and {}, wanted [B, T, C] and [B, S, C]", name, x.shape(), y.shape());
  for (const auto& side : {std::pair{&x, &x_mask}, {&y, &y_mask}}) {
    const Shape rows = {side.first->size(0), side.first->size(1)};
    const Tensor& mask = *side.second;
    check(!mask.defined() || (mask.shape() == rows && mask.dtype() == DType::boolean),
          "{}: a mask is {}, wanted bool {}", name, describe(mask), rows);
  }
}

}  // namespace

Alignment soft_alignment(const Tensor& a0, const Tensor& b0, const Tensor& a_mask, const Tensor& b_mask,
                         const ReadOut& read) {
  check_pair("soft_alignment", a0, b0, a_mask, b_mask);
  // Sums are not rounded to 16 bits.
  const DType type = accumulation_dtype(a0.dtype());
  const Tensor a = cast(a0, type), b = cast(b0, type), e = matmul(a, transpose(b));
  const auto enhanced = [&](const Tensor& own, const Tensor& other, const Tensor& weights,
                            const Tensor& scores, const Tensor& mask) {
    const Tensor c = read_side(read, weights, scores, other, mask, mask.defined());
    return cast(concat({own, c, own - c, own * c}, -1), a0.dtype());
  };
  const Tensor to_b = hide(e, b_mask), to_a = hide(transpose(e), a_mask);
  const Tensor of_b = softmax(to_b), of_a = softmax(to_a);
  return {enhanced(a, b, of_b, to_b, b_mask), enhanced(b, a, of_a, to_a, a_mask), of_b, of_a};
}

AttentionFlow::AttentionFlow(int64_t width) {
  check(width > 0, "AttentionFlow: a width of {}, wanted at least 1", width);
  weight = normal({3 * width}, 1 / std::sqrt(static_cast<double>(3 * width)));
}

AttentionFlow::Result AttentionFlow::attend(const Tensor& h0, const Tensor& u0, const Tensor& h_mask,
                                            const Tensor& u_mask, const ReadOut& read_out) const {
  check_pair("AttentionFlow", h0, u0, h_mask, u_mask);
  const int64_t width = weight.shape()[0] / 3;
  check(h0.size(2) == width, "AttentionFlow: h is {}, wanted [B, T, {}]", h0.shape(), width);
  const DType type = accumulation_dtype(h0.dtype());
  const Tensor h = cast(h0, type), u = cast(u0, type);
  const auto w = split(cast(weight, type), width, 0);
  const Tensor scores = hide(
      unsqueeze(matmul(h, w[0]), 2) + unsqueeze(matmul(u, w[1]), 1) + matmul(h * w[2], transpose(u)), u_mask);
  const Tensor to_h = hide(unsqueeze(max(scores, {2}), 1), h_mask), of_u = softmax(scores),
               of_h = softmax(to_h);
  const Tensor read = read_side(read_out, of_u, scores, u, u_mask, u_mask.defined()),
               whole = read_side(read_out, of_h, to_h, h, h_mask, h_mask.defined() || u_mask.defined());
  return {cast(concat({h, read, h * read, h * whole}, -1), h0.dtype()), of_u, squeeze(of_h, {1})};
}

AttentionFlow AttentionFlow::clone() {
  return clone_into([this] { return AttentionFlow(weight.shape()[0] / 3); });
}

}  // namespace vitrine::nn
