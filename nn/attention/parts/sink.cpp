// Softmax with a sink: a key more whose value is 0. A query that finds nothing gives it its weight.
#include "core/creation.h"
#include "nn/attention/parts/rows.h"
#include "nn/init.h"
#include "ops/join.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace vitrine::nn::parts {
namespace {

/// p_j = e^{s_j}/(e^z + Σ_k e^{s_k}) with the score z of the sink. z = 0 is the softmax "off by
/// one" (Miller 2023). A learned z, one for each head, starts at 0.
class Sink : public AttentionPart {
 public:
  Sink(const AttentionSizes& sizes, bool learned) : heads_(sizes.heads) {
    if (learned) score_of_sink = constant({sizes.heads, 1, 1}, 0);
  }
  Traits traits() const override { return {.distribution = false}; }
  bool fold(AttentionOptions& options, const FoldCall& call) const override {
    options.sink = score_of_sink.defined() ? reshape(score_of_sink, {heads_})
                                           : zeros({heads_}, DType::float32, call.device);
    return true;
  }
  Tensor normalize(const Tensor& scores) const override {
    Shape one = scores.shape();
    one.back() = 1;
    const Tensor sink = score_of_sink.defined() ? expand(cast(score_of_sink, scores.dtype()), one)
                                                : zeros(one, scores.dtype(), scores.device());
    return slice(softmax(concat({scores, sink}, -1)), -1, 0, scores.size(-1));
  }
  void fields(Fields& f) override { f("score", score_of_sink); }

  Parameter score_of_sink;  // [H, 1, 1]

 private:
  int64_t heads_;
};

}  // namespace

AttentionPartRow sink() {
  return {.name = "sink",
          .stage = Stage::normalize,
          .help = "softmax with one more key, whose score is 0 (=learned: learned) and whose value is 0",
          .formula = "w_j = e^(s_j)/(e^c + Σ e^s)",
          .source = "Miller 2023",
          .options = {{.name = "score",
                       .help = "the score of the sink",
                       .words = {"learned"},
                       .number = false,
                       .optional = true}},
          .make = [](const AttentionSizes& sizes, const PartValues& values) {
            return std::make_unique<Sink>(sizes, values.has("score"));
          }};
}

}  // namespace vitrine::nn::parts
