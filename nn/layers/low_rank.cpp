#include "nn/layers/low_rank.h"

#include <algorithm>
#include <cmath>

#include "nn/init.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

const LoraOptions& checked(int64_t in, int64_t out, const LoraOptions& o) {
  check(o.rank >= 1 && o.rank <= std::min(in, out),
        "LowRank: the rank is {}, wanted at least 1 and at most the sizes {} and {} of the weight", o.rank,
        out, in);
  return o;
}

}  // namespace

LowRank::LowRank(int64_t in, int64_t out, const LoraOptions& options)
    : a(uniform({checked(in, out, options).rank, in}, 1 / std::sqrt(static_cast<double>(in)))),
      b(constant({out, options.rank}, 0)),
      options_(options) {}

Tensor LowRank::forward(const Tensor& x) const { return scale() * linear(linear(x, a), b); }
Tensor LowRank::forward(const Tensor& x, int64_t begin, int64_t end) const {
  return scale() * linear(linear(x, a), slice(b, 0, begin, end));
}
Tensor LowRank::change() const { return scale() * matmul(b, a); }
void LowRank::fields(Fields& f) {
  f("a", a);
  f("b", b);
}
LowRank LowRank::clone() {
  return clone_into([this] { return LowRank(a.shape()[1], b.shape()[0], options_); });
}

}  // namespace vitrine::nn
