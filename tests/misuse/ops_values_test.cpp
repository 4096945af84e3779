// Elements and dtypes that operations refuse: operands, gradients and tape are unchanged.
#include "ops/activation.h"
#include "ops/dropout.h"
#include "ops/index.h"
#include "ops/loss.h"
#include "ops/multinomial.h"
#include "ops/norm.h"
#include "ops/softmax.h"
#include "ops/sort.h"
#include "tests/misuse/ops.h"

using namespace vitrine;
using namespace vitrine::test;

namespace {

std::vector<Misuse> indices(Ops& s) {
  return {
      {"a token id beyond the table",
       [&] { embedding(s.x, s.far); },
       {"embedding: ids has 7 at position 1, outside [0, 2)"},
       [&] { return embedding(s.x, s.ids); }},
      {"a negative token id",
       [&] { embedding(s.x, s.ids - 1); },
       {"embedding: ids has -1 at position 1, outside [0, 2)"},
       [&] { return embedding(s.x, s.ids); }},
      {"token ids that are floats",
       [&] { embedding(s.x, s.v); },
       {"embedding: ids is float32[3]", "wanted int64, int32 or uint8"},
       [&] { return embedding(s.x, s.ids); }},
      {"a target beyond the classes",
       [&] { cross_entropy(s.x, s.far); },
       {"cross_entropy: targets has 7 at position 1, outside [0, 3)"},
       [&] { return cross_entropy(s.x, s.ids); }},
      {"targets of another shape than the rows",
       [&] { cross_entropy(s.cube, s.ids); },
       {"cross_entropy: targets has the shape [2], wanted [2, 3]", "logits of shape [2, 3, 4]"},
       [&] { return cross_entropy(s.cube, s.n); }},
      {"one-hot targets",
       [&] { cross_entropy(s.x, one_hot(s.ids, 3)); },
       {"cross_entropy: targets has the shape [2, 3], wanted [2]"},
       [&] { return cross_entropy(s.x, s.ids); }},
      {"label smoothing beyond 1",
       [&] { cross_entropy(s.x, s.ids, {.label_smoothing = 2}); },
       {"cross_entropy: label_smoothing is 2, wanted 0 to 1"},
       [&] { return cross_entropy(s.x, s.ids, {.label_smoothing = 0.1}); }},
      {"class weights for other classes",
       [&] { cross_entropy(s.x, s.ids, {.class_weights = ones({4})}); },
       {"cross_entropy: class_weights has the shape [4], wanted [3]"},
       [&] { return cross_entropy(s.x, s.ids, {.class_weights = ones({3})}); }},
      {"gather beyond the axis",
       [&] { gather(s.x, 1, s.n + 2); },
       {"gather: index has 3 at position 0, outside [-3, 3)"},
       [&] { return gather(s.x, 1, s.n); }},
      {"scatter_add of a source of another shape",
       [&] { scatter_add(s.x, 1, s.n, s.w); },
       {"scatter_add: source has the shape [3, 4] and index [2, 3]"},
       [&] { return scatter_add(s.x, 1, s.n, s.x); }},
      {"index_select beyond the axis",
       [&] { index_select(s.x, 1, s.far); },
       {"index_select: index has 7 at position 1, outside [-3, 3)"},
       [&] { return index_select(s.x, 1, s.ids); }},
      {"select beyond the axis",
       [&] { select(s.x, 1, 3); },
       {"select: index 3 is outside [-3, 3) on axis 1 of [2, 3]"},
       [&] { return select(s.x, 1, -1); }},
      {"topk of more than there are",
       [&] { topk(s.x, 4); },
       {"topk: k is 4, wanted 0 to 3", "axis 1 of [2, 3]"},
       [&] { return topk(s.x, 3).values; }},
      {"a draw from a negative weight",
       [&] {
         multinomial(tensor({1, -2}), 1);
       },
       {"multinomial: weight 1 of row 0 is -2", "wanted 0 to"},
       [&] { return one_hot(s.ids, 2); }},
  };
}

std::vector<Misuse> dtypes(Ops& s) {
  return {
      {"softmax of integers",
       [&] { softmax(s.n); },
       {"softmax: x is int64[2, 3] on cpu, wanted a floating dtype"},
       [&] { return softmax(cast(s.n, DType::float32)); }},
      {"mean of integers",
       [&] { mean(s.n); },
       {"mean: x is int64[2, 3] on cpu, wanted a floating dtype"},
       [&] { return sum(s.n); }},
      {"cross_entropy of integer logits",
       [&] { cross_entropy(s.n, s.ids); },
       {"cross_entropy: logits is int64[2, 3] on cpu, wanted a floating dtype"},
       [&] { return cross_entropy(s.x, s.ids); }},
      {"layer_norm of integers",
       [&] { layer_norm(s.n); },
       {"layer_norm: x is int64[2, 3]", "wanted a floating dtype"},
       [&] { return layer_norm(s.x); }},
      {"half of an integer tensor",
       [&] { s.n * 0.5; },
       {"mul: the number 0.5 is not whole", "int64"},
       [&] { return s.n * 2; }},
      {"a number beyond int32",
       [&] { cast(s.n, DType::int32) + 3e9; },
       {"add: the number 3000000000", "range of int32"},
       [&] { return cast(s.n, DType::int32) + 3; }},
      {"where by numbers",
       [&] { where(s.x, s.x, s.x); },
       {"where: the condition is float32[2, 3] on cpu, wanted bool"},
       [&] { return where(s.yes, s.x, 0); }},
      {"logic of numbers",
       [&] { logical_and(s.x, s.yes); },
       {"logical_and: wanted bool, got float32[2, 3]"},
       [&] { return logical_and(s.yes, s.yes); }},
      {"scatter_add of another dtype",
       [&] { scatter_add(s.x, 1, s.n, s.n); },
       {"scatter_add: source is int64[2, 3]", "x float32[2, 3]", "same dtype"},
       [&] { return scatter_add(s.x, 1, s.n, s.x); }},
      {"dropout of everything and more",
       [&] { dropout(s.x, 1.5); },
       {"dropout: p is 1.5, wanted a probability"},
       [&] { return dropout(s.x, 0); }},
      {"swiglu of an odd width",
       [&] { swiglu(s.x); },
       {"swiglu: the last axis of [2, 3] must have an even size"},
       [&] { return swiglu(s.w); }},
  };
}

}  // namespace

TEST_CASE("indices, token ids and targets out of range") { check_all<Ops>(indices); }
TEST_CASE("misuse of dtypes and numbers") { check_all<Ops>(dtypes); }
