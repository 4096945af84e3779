#include "ops/einsum.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "core/creation.h"
#include "core/random.h"
#include "core/tape.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

using namespace vitrine;

namespace {

/// Σ of the operands' product over all letters that are not in `output`, in loops over every
/// letter. Sizes of 1 broadcast.
std::vector<double> reference(const std::vector<std::string>& terms, const std::string& output,
                              const std::vector<Tensor>& xs, std::map<char, int64_t> sizes) {
  std::string letters = output;
  for (const auto& term : terms)
    for (char c : term)
      if (letters.find(c) == std::string::npos) letters += c;
  int64_t total = 1, kept = 1;
  for (char c : letters) total *= sizes[c];
  for (char c : output) kept *= sizes[c];
  std::vector<double> y(static_cast<size_t>(kept), 0);
  std::vector<std::vector<double>> values;
  for (const Tensor& x : xs) values.push_back(x.values());
  for (int64_t n = 0; n < total; ++n) {
    std::map<char, int64_t> at;
    int64_t rest = n;
    for (char c : letters) {
      at[c] = rest % sizes[c];
      rest /= sizes[c];
    }
    double product = 1;
    for (size_t i = 0; i < xs.size(); ++i) {
      int64_t place = 0;
      for (size_t axis = 0; axis < terms[i].size(); ++axis) {
        const int64_t size = xs[i].size(static_cast<int64_t>(axis));
        place = place * size + (size == 1 ? 0 : at[terms[i][axis]]);
      }
      product *= values[i][static_cast<size_t>(place)];
    }
    int64_t place = 0;
    for (char c : output) place = place * sizes[c] + at[c];
    y[static_cast<size_t>(place)] += product;
  }
  return y;
}

/// Small integers, so that every order of summation gives the same result.
Tensor whole_numbers(const Shape& shape, DType dtype, Generator& random) {
  return cast(randint(-2, 3, shape, Device::cpu, random), dtype);
}

struct Case {
  std::vector<std::string> terms;
  std::string output;
  bool implicit;
  std::map<char, int64_t> sizes;
  std::vector<Tensor> xs;
  std::string text;
};

Case random_case(Generator& random) {
  const std::string letters = "aBcDe";
  Case c;
  for (char l : letters) c.sizes[l] = random.next_below(12) == 0 ? 0 : 1 + random.next_below(3);
  const DType dtype = std::array{DType::float64, DType::int32, DType::float32,
                                 DType::int64}[static_cast<size_t>(random.next_below(4))];
  std::string used;
  for (int64_t i = 0, count = 1 + random.next_below(4); i < count; ++i) {
    std::string term;
    Shape shape;
    for (int64_t axis = random.next_below(5); axis > 0; --axis) {
      const char l = letters[static_cast<size_t>(random.next_below(5))];
      // Both axes of a diagonal have the same size.
      const bool again = term.find(l) != std::string::npos;
      shape.push_back(again                       ? shape[static_cast<int>(term.find(l))]
                      : random.next_below(8) == 0 ? 1
                                                  : c.sizes[l]);
      term += l;
    }
    c.terms.push_back(term);
    c.xs.push_back(whole_numbers(shape, dtype, random));
    c.text += (i ? "," : "") + term;
    used += term;
  }
  // The operands determine the size: 1 if all of them broadcast.
  for (char l : letters) {
    bool all_ones = true;
    for (size_t i = 0; i < c.xs.size(); ++i)
      for (size_t axis = 0; axis < c.terms[i].size(); ++axis)
        if (c.terms[i][axis] == l && c.xs[i].size(static_cast<int64_t>(axis)) != 1) all_ones = false;
    if (all_ones) c.sizes[l] = 1;
  }
  c.implicit = random.next_below(4) == 0;
  std::string sorted = letters;
  std::sort(sorted.begin(), sorted.end());
  for (char l : sorted) {
    const auto times = std::count(used.begin(), used.end(), l);
    if (c.implicit ? times == 1 : times > 0 && random.next_below(2) == 0)
      c.output.insert(c.implicit
                          ? c.output.size()
                          : static_cast<size_t>(random.next_below(static_cast<int64_t>(c.output.size() + 1))),
                      1, l);
  }
  if (!c.implicit) c.text += "->" + c.output;
  return c;
}

std::string error_of(const char* subscripts, const std::vector<Tensor>& xs) {
  return test::error_of([&] { einsum(subscripts, xs); });
}

}  // namespace

TEST_CASE("1,000 random subscripts give what nested loops over all letters give") {
  Generator random(3);
  for (int round = 0; round < 1000; ++round) {
    const Case c = random_case(random);
    const Tensor y = einsum(c.text, c.xs);
    Shape shape;
    for (char l : c.output) shape.push_back(c.sizes.at(l));
    CHECK_MESSAGE(y.shape() == shape, c.text);
    CHECK(y.dtype() == c.xs[0].dtype());
    CHECK_MESSAGE(y.values() == reference(c.terms, c.output, c.xs, c.sizes), c.text);
  }
}

TEST_CASE("an ellipsis stands for leading axes that broadcast") {
  Generator random(4);
  const auto draw = [&](const Shape& shape) { return whole_numbers(shape, DType::float64, random); };
  const Tensor x = draw({2, 3, 4, 5}), y = draw({4, 5}), z = draw({3, 1, 5}), square = draw({2, 3, 3});
  const std::map<char, int64_t> sizes = {{'a', 2}, {'b', 3}, {'i', 4}, {'j', 5}};
  struct {
    const char* subscripts;
    std::vector<Tensor> xs;
    std::vector<std::string> terms;  // the same without an ellipsis
    std::string output;
  } const cases[] = {
      {"...ij,...ij->...", {x, y}, {"abij", "ij"}, "ab"},
      {"...,...", {x, y}, {"abij", "ij"}, "abij"},
      {"...j,...j", {x, z}, {"abij", "bij"}, "abi"},
      {"a...j->j...a", {x}, {"abij"}, "jbia"},
      {" ... j ", {x}, {"abij"}, "abij"},
      {"i...j->j", {y}, {"ij"}, "j"},
      {"...bb->b...", {square}, {"abb"}, "ba"},
      {"...j->...", {z}, {"bij"}, "bi"},
  };
  for (const auto& c : cases) {
    auto here = sizes;
    if (c.xs.size() == 1 && c.xs[0].is_same(z)) here['i'] = 1;
    CHECK_MESSAGE(einsum(c.subscripts, c.xs).values() == reference(c.terms, c.output, c.xs, here),
                  c.subscripts);
  }
  CHECK(einsum("a...,b...->...ab", {x, z}).shape() == Shape{3, 4, 5, 2, 3});
}

TEST_CASE("scalars, empty sums and single elements are as in NumPy") {
  CHECK(einsum("", {Tensor(3.0)}).item() == 3);
  CHECK(einsum("->", {Tensor(3.0)}).shape() == Shape{});
  CHECK(einsum(",i->i", {Tensor(3.0), tensor({1, 2})}).values() == std::vector<double>{3, 6});
  CHECK(einsum("i,i", {zeros({0}), zeros({0})}).item() == 0);
  CHECK(einsum("ij,jk", {zeros({2, 0}), zeros({0, 3})}).values() == std::vector<double>(6, 0));
  CHECK(einsum("bij,bjk->bik", {zeros({0, 2, 3}), zeros({0, 3, 4})}).shape() == Shape{0, 2, 4});
  CHECK(einsum("i,i", {tensor({2}), tensor({1, 2, 3})}).item() == 12);
  CHECK(einsum("i,i->i", {tensor({2}), zeros({0})}).shape() == Shape{0});
  CHECK(einsum("i,i", {tensor({0.5, 2}), tensor({2, 3}, DType::int64)}).item() == 7);
  CHECK(einsum("ij,jk->ik", {zeros({2, 3}, DType::bfloat16), zeros({3, 2}, DType::float16)}).dtype() ==
        DType::float32);
}

TEST_CASE("a chain is contracted from its cheap end") {
  Tensor x = ones({300, 300}), v = ones({300});
  x.requires_grad();
  Tape tape;
  einsum("ij,jk,kl,l->i", {x, x, x, v});
  for (size_t i = 0; i < tape.size(); ++i)
    for (const Shape& shape : tape.info(i).outputs)
      if (std::string(tape.info(i).op) == "matmul") CHECK(numel(shape) == 300);
}

TEST_CASE("one operand is seen, not copied, where only its axes move") {
  const Tensor x = ones({2, 3, 3});
  CHECK(&einsum("aij->jia", {x}).storage() == &x.storage());
  CHECK(&einsum("aii->ia", {x}).storage() == &x.storage());
}

TEST_CASE("errors name the subscript") {
  const Tensor x = ones({2, 3}), v = ones({3});
  CHECK(error_of("ij,jk", {x}) == "einsum: 'ij,jk' names 2 operands, 1 were given");
  CHECK(error_of("ij", {}) == "einsum: 'ij' names 1 operands, 0 were given");
  CHECK(error_of("ij,kj,j", {x, x, ones({4})}) ==
        "einsum: 'ij,kj,j': j has size 4 in operand 2, which is [4], and 3 before");
  CHECK(error_of("ijk", {x}) == "einsum: 'ijk' names 3 axes of operand 0, which is [2, 3]");
  CHECK(error_of("ijk...", {x}) ==
        "einsum: 'ijk...' names 3 axes beside the ellipsis of operand 0, which is [2, 3]");
  CHECK(error_of("ii", {x}) == "einsum: 'ii': i has size 3 in operand 0, which is [2, 3], and 2 before");
  CHECK(error_of("ii", {ones({1, 3})}) == "einsum: 'ii': i names axes of sizes 1 and 3 of one operand");
  CHECK(error_of("ij->ik", {x}) == "einsum: 'ij->ik': the output names k, which no operand has");
  CHECK(error_of("ij->ii", {x}) == "einsum: 'ij->ii': the output names i twice");
  CHECK(error_of("i...->i", {x}) ==
        "einsum: 'i...->i': the output wants an ellipsis, as 1 axes of the operands are in theirs");
  CHECK(error_of("...,...", {x, ones({2, 2})}).find("an axis of the ellipsis has size 2") !=
        std::string::npos);
  CHECK(error_of("i1", {x}).find("got \"1\"") != std::string::npos);
  CHECK(error_of("i..j", {x}).find("at character 1") != std::string::npos);
  CHECK(error_of("i...j...", {x}).find("at character 5") != std::string::npos);
  CHECK(error_of("ij->i->j", {x}).find("at character 5") != std::string::npos);
  CHECK(error_of("ij->i,", {x}).find("at character 5") != std::string::npos);
  CHECK(error_of("i", {ones({3}, DType::boolean)}) == "einsum: 'i' wants numbers, got bool");
  CHECK(error_of("abcde,fghij->abcdefghij", {ones({1, 1, 1, 1, 1}), ones({1, 1, 1, 1, 1})})
            .find("has 10 axes, at most 8") != std::string::npos);
}
