// Matrix products, and the losses, whose classes are on axis 1 in ONNX.
#include "ops/matmul.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/operands.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "tests/ops/onnx/adapters.h"

namespace vitrine::test {
namespace {

/// alpha·A·B + beta·C, with A and B transposed if requested.
Outputs gemm(Case c) {
  const auto operand = [&](size_t slot, const char* transposed) {
    return c.attribute(transposed, 0) != 0 ? transpose(c.in(slot)) : c.in(slot);
  };
  const Tensor product = matmul(operand(0, "transA"), operand(1, "transB")) * c.attribute("alpha", 1.0);
  const double beta = c.attribute("beta", 1.0);
  return {c.has(2) ? product + c.in(2) * beta : product};
}

CrossEntropyOptions loss_options(Case c) {
  const std::map<std::string, Reduction> reductions = {
      {"mean", Reduction::mean}, {"sum", Reduction::sum}, {"none", Reduction::none}};
  CrossEntropyOptions o;
  o.reduction = reductions.at(c.attribute<std::string>("reduction", "mean"));
  o.ignore_index = c.attribute("ignore_index", o.ignore_index);
  o.class_weights = c.in(2);
  return o;
}

}  // namespace

const OnnxAdapters kMatmulAdapters = {
    {"Einsum",
     [](Case c) -> Outputs { return {einsum(c.attribute<std::string>("equation", ""), c.all_inputs())}; }},
    {"Gemm", gemm},
    {"MatMul", [](Case c) -> Outputs { return {matmul(c.in(0), c.in(1))}; }},
};

const OnnxAdapters kLossAdapters = {
    {"NegativeLogLikelihoodLoss",
     [](Case c) -> Outputs { return {nll_loss(move_axis(c.in(0), 1, -1), c.in(1), loss_options(c))}; }},
    {"SoftmaxCrossEntropyLoss",
     [](Case c) -> Outputs {
       return {cross_entropy(move_axis(c.in(0), 1, -1), c.in(1), loss_options(c)), log_softmax(c.in(0), 1)};
     }},
};

}  // namespace vitrine::test
