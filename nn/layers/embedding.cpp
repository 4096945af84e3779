#include "nn/layers/embedding.h"

#include "nn/init.h"
#include "ops/index.h"

namespace vitrine::nn {

Embedding::Embedding(int64_t count, int64_t width, double deviation)
    : weight(normal({count, width}, deviation)) {}
Tensor Embedding::forward(const Tensor& ids) const { return embedding(weight, ids); }
void Embedding::fields(Fields& f) { f("weight", weight); }
Embedding Embedding::clone() {
  return clone_into([this] { return Embedding(weight.shape()[0], weight.shape()[1]); });
}

}  // namespace vitrine::nn
