#include "relu2.h"

#include <vitrine/nn/attention/part.h>
#include <vitrine/ops/activation.h>
#include <vitrine/ops/elementwise.h>

namespace outside {
namespace {

using namespace vitrine;

class Relu2 : public nn::AttentionPart {
 public:
  explicit Relu2(const nn::AttentionSizes& sizes) : factor_(1.0 / static_cast<double>(sizes.context)) {}
  Traits traits() const override { return {.distribution = false}; }
  Tensor normalize(const Tensor& scores) const override { return square(relu(scores)) * factor_; }

 private:
  double factor_;
};

}  // namespace

void register_relu2() {
  nn::register_attention_part(
      {.name = "relu2",
       .stage = nn::Stage::normalize,
       .help = "squared ReLU of the scores over the context, in place of softmax",
       .make = [](const nn::AttentionSizes& sizes, auto&) { return std::make_unique<Relu2>(sizes); }});
}

}  // namespace outside
