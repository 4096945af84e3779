// A learned scale per channel of the queries.
#include <cmath>

#include "nn/attention/parts/rows.h"
#include "nn/init.h"
#include "ops/activation.h"
#include "ops/elementwise.h"

namespace vitrine::nn::parts {
namespace {

/// q·softplus(w)/log 2, which is q for w = 0.
class Temperature : public AttentionPart {
 public:
  explicit Temperature(const AttentionSizes& sizes) : log_temperature(constant({sizes.head_size}, 0)) {}
  bool fold(AttentionOptions&, const FoldCall&) const override { return true; }
  Tensor prepare_queries(const Tensor& q, const RowPositions&) const override {
    return q * (softplus(log_temperature) / std::log(2.0));
  }
  void fields(Fields& f) override { f("log_temperature", log_temperature); }

  Parameter log_temperature;  // [D]
};

}  // namespace

AttentionPartRow temperature() {
  return {.name = "temperature",
          .stage = Stage::prepare,
          .help = "a learned scale per channel of the queries",
          .formula = "q_d ← t_d·q_d",
          .source = "Duvvuri and Dhillon 2024",
          .rank = rank::temperature,
          .make = [](const AttentionSizes& sizes, const PartValues&) {
            return std::make_unique<Temperature>(sizes);
          }};
}

}  // namespace vitrine::nn::parts
