// Misuse of operations on the tape: what they refuse leaves operands, gradients and tape as they were.
#include "core/creation.h"
#include "core/tape.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/dropout.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/sort.h"
#include "tests/misuse/misuse.h"

using namespace vitrine;
using namespace vitrine::test;

namespace {

Tensor leaf(const Shape& shape) { return reshape(linspace(-1, 1, numel(shape)), shape).requires_grad(); }

/// Operands, and a tape that has recorded something.
struct Ops : Scene {
  Tensor x = leaf({2, 3}), w = leaf({3, 4}), v = leaf({3}), cube = leaf({2, 3, 4});
  Tensor q = leaf({1, 4, 3, 2}), k = leaf({1, 2, 3, 2});
  Tensor n = tensor({1, 2, 0, 2, 1, 1}, {2, 3}, DType::int64), yes = ones({2, 3}, DType::boolean);
  Tensor ids = tensor({1, 0}, DType::int64), far = tensor({1, 7}, DType::int64);
  Tape tape;
  Tensor before = sum(x * x) + sum(w) + sum(v) + sum(cube) + sum(q) + sum(k);

  std::string state() const override {
    std::string text = fmt::format("{} nodes\n", tape.size());
    for (const Tensor& t : {x, w, v, cube, q, k, n, yes, ids, far, before}) text += show(t);
    return text;
  }
  /// The value, and all gradients of the tape.
  std::string outcome(const Tensor& y) override {
    const std::string value = show(y);
    tape.backward(is_floating(y.dtype()) ? before + sum(square(cast(y, DType::float32))) : before);
    return value + state();
  }
};

AttentionOptions with(Tensor AttentionOptions::*field, const Tensor& x) {
  AttentionOptions o;
  o.*field = x;
  return o;
}

std::vector<Misuse> products(Ops& s) {
  return {
      {"matmul of inner sizes that differ",
       [&] { matmul(s.x, s.x); },
       {"matmul: x is [2, 3] and y is [2, 3]", "inner sizes 3 and 2 differ"},
       [&] { return matmul(s.x, s.w); }},
      {"matmul with a scalar",
       [&] { matmul(s.x, Tensor(2.0)); },
       {"matmul", "y is []", "at least one axis"},
       [&] { return s.x * Tensor(2.0); }},
      {"matmul of batches that do not broadcast",
       [&] {
         matmul(s.cube, ones({5, 4, 2}));
       },
       {"matmul, axes before the last two", "[2] and [5]"},
       [&] {
         return matmul(s.cube, ones({2, 4, 2}));
       }},
      {"matmul of bool",
       [&] { matmul(s.yes, transpose(s.yes)); },
       {"matmul", "wanted numbers, got bool"},
       [&] { return matmul(s.x, transpose(s.x)); }},
      {"linear with the weight transposed",
       [&] { linear(s.x, s.w); },
       {"linear: x is [2, 3]", "weight is [3, 4]", "wanted [..., in] and [out, in]"},
       [&] { return linear(s.x, transpose(s.w)); }},
      {"linear with the bias of another layer",
       [&] {
         linear(s.x, ones({4, 3}), s.v);
       },
       {"linear: the bias is [3], wanted [4]"},
       [&] { return linear(s.x, s.x, ones({2})); }},
      {"einsum of sizes that differ",
       [&] {
         einsum("ij,jk->ik", {s.x, s.x});
       },
       {"einsum: 'ij,jk->ik'", "j has size 2 in operand 1, which is [2, 3], and 3 before"},
       [&] {
         return einsum("ij,jk->ik", {s.x, s.w});
       }},
      {"einsum whose output names what no operand has",
       [&] { einsum("ij->ik", {s.x}); },
       {"einsum: 'ij->ik': the output names k, which no operand has"},
       [&] { return einsum("ij->ji", {s.x}); }},
      {"einsum with an operand too few",
       [&] { einsum("ij,jk", {s.x}); },
       {"einsum: 'ij,jk' names 2 operands, 1 were given"},
       [&] { return einsum("ij", {s.x}); }},
      {"einsum with an axis too many",
       [&] { einsum("ijk", {s.x}); },
       {"einsum: 'ijk' names 3 axes of operand 0, which is [2, 3]"},
       [&] { return einsum("ijk", {s.cube}); }},
      {"einsum with a number for a letter",
       [&] { einsum("i1", {s.x}); },
       {"einsum: 'i1' at character 1: wanted letters", "got \"1\""},
       [&] {
         return einsum("ii", {ones({2, 2})});
       }},
      {"einsum of bool",
       [&] { einsum("ij", {s.yes}); },
       {"einsum: 'ij' wants numbers, got bool"},
       [&] { return einsum("ij->", {s.n}); }},
      {"attention of heads that cannot be shared",
       [&] {
         attention(s.q, ones({1, 3, 3, 2}), ones({1, 3, 3, 2}));
       },
       {"attention: 4 query heads cannot share 3 key heads evenly"},
       [&] { return attention(s.q, s.k, s.k); }},
      {"attention of head sizes that differ",
       [&] {
         attention(s.q, ones({1, 2, 3, 5}), s.k);
       },
       {"attention: q is [1, 4, 3, 2], k [1, 2, 3, 5]", "wanted [B, H, Tq, D], [B, Hkv, Tk, D]"},
       [&] { return attention(s.q, s.k, s.k); }},
      {"attention of two dtypes",
       [&] {
         attention(s.q, cast(ones({1, 2, 3, 2}), DType::float64), s.k);
       },
       {"attention: q is float32, k float64", "wanted one dtype"},
       [&] { return attention(s.q, s.k, s.k); }},
      {"attention with a mask of numbers",
       [&] {
         attention(s.q, s.k, s.k, with(&AttentionOptions::allowed, ones({3, 3})));
       },
       {"attention: allowed is float32, wanted bool"},
       [&] {
         return attention(s.q, s.k, s.k, with(&AttentionOptions::allowed, ones({3, 3}, DType::boolean)));
       }},
      {"attention with a bias for other sizes",
       [&] {
         attention(s.q, s.k, s.k, with(&AttentionOptions::bias, ones({3, 4})));
       },
       {"attention, bias: the shapes [3, 4] and [1, 4, 3, 3] do not broadcast"},
       [&] {
         return attention(s.q, s.k, s.k, with(&AttentionOptions::bias, ones({3, 3})));
       }},
  };
}

std::vector<Misuse> shapes(Ops& s) {
  return {
      {"a sum of shapes that do not broadcast",
       [&] { s.x + s.w; },
       {"add: the shapes [2, 3] and [3, 4] do not broadcast", "sizes 2 and 3 differ"},
       [&] { return s.x + s.v; }},
      {"concat of sizes that differ",
       [&] {
         concat({s.x, s.w}, 1);
       },
       {"concat: the shapes [2, 3] and [3, 4]", "size of axis 1"},
       [&] {
         return concat({s.x, ones({1, 3})});
       }},
      {"concat of nothing",
       [&] { concat({}); },
       {"concat: there are no tensors"},
       [&] { return concat({s.x}); }},
      {"stack of shapes that differ",
       [&] {
         stack({s.x, s.w});
       },
       {"stack: the shapes [2, 3] and [3, 4] differ"},
       [&] {
         return stack({s.x, s.x}, -1);
       }},
      {"reshape to another number of elements",
       [&] { reshape(s.x, {4}); },
       {"reshape: [2, 3] has 6 elements, the shape [4] has 4"},
       [&] { return reshape(s.x, {6}); }},
      {"reshape with two sizes left open",
       [&] {
         reshape(s.x, {-1, -1});
       },
       {"more than one size of [-1, -1] is -1"},
       [&] {
         return reshape(s.x, {3, -1});
       }},
      {"reshape with a negative size",
       [&] {
         reshape(s.x, {-2, 3});
       },
       {"reshape: the size -2 in [-2, 3]"},
       [&] {
         return reshape(s.x, {2, 3});
       }},
      {"expand of an axis that is not 1",
       [&] {
         expand(s.x, {2, 4});
       },
       {"expand", "[2, 3] and [2, 4]"},
       [&] {
         return expand(s.v, {2, 3});
       }},
      {"permute by too few axes",
       [&] { permute(s.x, {0}); },
       {"permute: 1 axes were given, wanted the 2 of x [2, 3]"},
       [&] {
         return permute(s.x, {1, 0});
       }},
      {"squeeze of an axis that is not 1",
       [&] { squeeze(s.x, {0}); },
       {"squeeze: axis 0 of [2, 3] has size 2, wanted 1"},
       [&] { return squeeze(unsqueeze(s.x, 0), {0}); }},
      {"split into sizes that do not add up",
       [&] {
         split(s.x, {1, 3}, 1);
       },
       {"split: the sizes [1, 3] add up to 4, axis 1 of [2, 3] has 3"},
       [&] {
         return split(s.x, {1, 2}, 1)[1];
       }},
      {"pad with an entry too few",
       [&] { pad(s.x, {1}, {1}); },
       {"pad: before has 1 entries", "the 2 axes of x"},
       [&] {
         return pad(s.x, {1, 0}, {1, 0});
       }},
      {"sum along an axis that is not there",
       [&] { sum(s.x, {2}); },
       {"sum: axis 2 is outside [-2, 2) for the shape [2, 3]"},
       [&] { return sum(s.x, {-2}); }},
      {"sum along an axis twice",
       [&] {
         sum(s.x, {1, -1});
       },
       {"sum: axis 1 is given twice"},
       [&] {
         return sum(s.x, {0, 1});
       }},
      {"softmax along an axis that is not there",
       [&] { softmax(s.x, -3); },
       {"softmax: axis -3 is outside [-2, 2) for the shape [2, 3]"},
       [&] { return softmax(s.x, -1); }},
      {"the largest of no elements",
       [&] {
         max(zeros({0, 2}), {0});
       },
       {"max: x has the shape [0, 2]", "no elements along the axes [0]"},
       [&] { return max(s.x, {0}); }},
      {"slice with step 0",
       [&] { slice(s.x, 0, 0, 1, 0); },
       {"slice: the step is 0"},
       [&] { return slice(s.x, 0, 0, 2, 2); }},
      {"layer_norm with the weight of another width",
       [&] { layer_norm(s.cube, s.v); },
       {"layer_norm: weight has the shape [3], wanted [4]", "x [2, 3, 4]"},
       [&] { return layer_norm(s.x, s.v); }},
      {"rms_norm with the weight of another width",
       [&] { rms_norm(s.cube, s.v); },
       {"rms_norm: weight has the shape [3], wanted [4]"},
       [&] { return rms_norm(s.x, s.v); }},
      {"mse_loss of two shapes",
       [&] { mse_loss(s.x, s.w); },
       {"mse_loss: x has the shape [2, 3] and y the shape [3, 4]"},
       [&] {
         return mse_loss(s.x, ones({2, 3}));
       }},
      {"an undefined operand",
       [&] { s.x + Tensor(); },
       {"undefined tensor", "grad()"},
       [&] { return s.x + 1; }},
  };
}

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
       {"embedding: ids is float32[3]", "wanted int64 or int32"},
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
       {"multinomial: weight 1 of row 0 is -2", "at least 0"},
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
      {"integer division by zero",
       [&] { s.n / (s.n - s.n); },
       {"div: integer division by zero"},
       [&] { return s.n / (s.n + 1); }},
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

TEST_CASE("misuse of products and attention") { check_all<Ops>(products); }
TEST_CASE("misuse of shapes and axes") { check_all<Ops>(shapes); }
TEST_CASE("indices, token ids and targets out of range") { check_all<Ops>(indices); }
TEST_CASE("misuse of dtypes and numbers") { check_all<Ops>(dtypes); }
