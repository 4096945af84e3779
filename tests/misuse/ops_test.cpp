// Operands that do not fit an operation: after the error, operands, gradients and tape are
// unchanged.
#include "tests/misuse/ops.h"
#include "ops/attention.h"
#include "ops/einsum.h"
#include "ops/join.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/softmax.h"

using namespace vitrine;
using namespace vitrine::test;

namespace {

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
      {"linear of integers with a bias that has fractions",
       [&] {
         linear(ones({2, 3}, DType::int64), ones({4, 3}, DType::int64), ones({4}));
       },
       {"linear: the bias is float32[4]", "for int64 products, which have no fractions"},
       [&] {
         return linear(ones({2, 3}, DType::int64), ones({4, 3}, DType::int64), ones({4}, DType::int64));
       }},
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
      {"concat beyond what an int64 counts",
       [&] {
         const Tensor half = expand(s.x.alias({1}, {1}), {int64_t{1} << 62});
         concat({half, half});
       },
       {"concat: an axis of 4611686018427387904 + 4611686018427387904 elements is too long"},
       [&] { return concat({s.x}); }},
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
      {"add_layer_norm of two shapes",
       [&] { add_layer_norm(s.x, s.w); },
       {"add_layer_norm: x is [2, 3] and residual is [3, 4], wanted one shape"},
       [&] { return add_layer_norm(s.x, s.x, s.v).y(); }},
      {"add_rms_norm with the weight of another width",
       [&] { add_rms_norm(s.cube, s.cube, s.v); },
       {"add_rms_norm: weight has the shape [3], wanted [4]"},
       [&] { return add_rms_norm(s.x, s.x, s.v).y(); }},
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

}  // namespace

TEST_CASE("misuse of products and attention") { check_all<Ops>(products); }
TEST_CASE("misuse of shapes and axes") { check_all<Ops>(shapes); }
