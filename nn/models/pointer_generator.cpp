#include "nn/models/pointer_generator.h"

#include "core/creation.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/loss.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

constexpr double kLeast = 1e-30;  // its logarithm is finite in float32

const PointerGeneratorOptions& checked(const PointerGeneratorOptions& o) {
  check_options(o, "PointerGenerator");
  const auto& base = o.base;
  check(base.score != SourceScore::none, "PointerGenerator: the score is none, wanted one to copy by");
  check(
      base.source_vocabulary == base.vocabulary && o.unknown < base.vocabulary,
      "PointerGenerator: {} source tokens, {} target tokens and the unknown token {}, wanted one vocabulary "
      "that has it",
      base.source_vocabulary, base.vocabulary, o.unknown);
  return o;
}

}  // namespace

void PointerGeneratorOptions::list(OptionList& o) {
  base.list(o);
  o("unseen", unseen, "the most words of a source that are not in the vocabulary").at_least(0);
  o("unknown", unknown, "the token of a word that is not in the vocabulary").at_least(0);
}

PointerGenerator::PointerGenerator(const PointerGeneratorOptions& o)
    : base(checked(o).base), gate(2 * o.base.width + base.decoder->in(), 1), options_(o) {
  named_parameters();  // sets the parameters' names, for messages and drawings
}

/// The ids in which each word that the vocabulary does not have is the unknown token.
Tensor PointerGenerator::known(const Tensor& ids) const {
  const Tensor last = full({}, static_cast<double>(options_.base.vocabulary - 1), ids.dtype(), ids.device());
  return where(less_equal(ids, last), ids, static_cast<double>(options_.unknown));
}

Memory PointerGenerator::encode(const Tensor& source, const Tensor& lengths) const {
  Memory memory = base.encode(known(source), lengths);
  memory.ids = source;
  return memory;
}

PointerGenerator::Written PointerGenerator::write(const Tensor& ids, const StackCall& call) const {
  const auto decoded = base.decode(known(ids), call);
  const Tensor& a = decoded.weights;
  const Shape places = {a.size(0), a.size(2)};
  check(call.source_ids.defined() && call.source_ids.shape() == places,
        "PointerGenerator: the ids of the source are {}, wanted {}, those of the memory of encode()",
        describe(call.source_ids), places);
  // Sums are not rounded to 16 bits.
  const DType type = accumulation_dtype(decoded.read.dtype());
  const Tensor g =
      cast(sigmoid(gate.forward(concat({decoded.context, decoded.h, decoded.inputs}, -1))), type);
  const Tensor own = g * softmax(cast(base.logits(base.dropout.forward(decoded.read)), type));
  const Tensor extended =
      concat({own, zeros({a.size(0), a.size(1), options_.unseen}, type, own.device())}, -1);
  const Tensor index = expand(unsqueeze(call.source_ids, 1), a.shape());
  const Tensor p = scatter_add(extended, -1, index, (1 - g) * a);
  return {.log_probabilities = log(maximum(p, kLeast)),
          .generates = select(g, -1, 0),
          .coverage_loss = decoded.coverage.defined() ? sum(minimum(a, decoded.coverage), {-1}) : Tensor()};
}

Tensor PointerGenerator::loss(const Tensor& source, const Tensor& lengths, const Tensor& given,
                              const Tensor& wanted, double coverage_weight) const {
  const Memory memory = encode(source, lengths);
  const Written written =
      write(given, {.source = memory.source, .source_lengths = memory.lengths, .source_ids = memory.ids});
  const Tensor own = nll_loss(written.log_probabilities, wanted);
  if (!written.coverage_loss.defined()) return own;
  const Tensor counts = not_equal(wanted, full({}, -100, wanted.dtype(), wanted.device()));
  const Tensor total = sum(where(counts, written.coverage_loss, 0.0));
  return own + total * coverage_weight / maximum(cast(sum(counts), total.dtype()), 1);
}

void PointerGenerator::fields(Fields& f) {
  f("base", base);
  f("gate", gate);
}

PointerGenerator PointerGenerator::clone() {
  return clone_into([this] { return PointerGenerator(options_); });
}

}  // namespace vitrine::nn
