#include "nn/attention/read_out.h"

#include "core/creation.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::nn {

Tensor ReadOut::read(const Weighting& weighting, const Tensor& v) const {
  const Tensor seen = seen_values(weighting);
  return read_near(weighting.weights, v, anchor(v, seen), seen);
}

Tensor ReadOut::read_near(const Tensor& weights, const Tensor& v, const Tensor& anchor,
                          const Tensor& seen) const {
  // A hidden value must not overflow.
  const bool replaced = seen.defined() && anchor.defined();
  return decode(matmul(weights, encode(replaced ? where(seen, v, anchor) : v, anchor)), anchor);
}

Tensor read_shares(const ReadOut& read_out, const Tensor& weights, const Tensor& visible, const Tensor& v) {
  return read_out.read({share_of(weights, sum(weights, {-1}, KeepAxes::yes)), {}, visible, true}, v);
}

}  // namespace vitrine::nn
