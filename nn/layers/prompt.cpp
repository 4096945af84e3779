#include "nn/layers/prompt.h"

#include "nn/init.h"
#include "ops/join.h"
#include "ops/view.h"

namespace vitrine::nn {

Prompt::Prompt(int64_t length, int64_t width, double deviation) : prefix(normal({length, width}, deviation)) {
  check(length > 0, "Prompt: the length is {}, wanted at least 1", length);
}

Prompt::Prompt(const Tensor& rows) : prefix(copy_as(rows, accumulation_dtype(rows.dtype()))) {
  check(rows.rank() == 2 && rows.size(0) > 0, "Prompt: the rows are {}, wanted [P, C]", rows.shape());
}

Tensor Prompt::forward(const Tensor& x) const {
  const int64_t length = prefix.shape()[0], width = prefix.shape()[1];
  check(x.rank() == 3 && x.size(2) == width, "Prompt: x is {}, wanted [B, T, {}]", x.shape(), width);
  return concat({expand(prefix, {x.size(0), length, width}), x}, 1);
}

Tensor Prompt::own(const Tensor& y) const {
  const int64_t length = prefix.shape()[0];
  check(y.rank() >= 2 && y.size(1) >= length, "Prompt: y is {}, wanted at least {} positions on axis 1",
        y.shape(), length);
  return slice(y, 1, length);
}

void Prompt::fields(Fields& f) { f("prefix", prefix); }

Prompt Prompt::clone() {
  return clone_into([this] { return Prompt(prefix.shape()[0], prefix.shape()[1]); });
}

}  // namespace vitrine::nn
