// The layouts of the spec rows detect a kernel that misreads one of them. Also which layouts apply
// to the constants of an op.
#include <doctest/doctest.h>

#include "core/random.h"
#include "core/record.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/loss.h"
#include "ops/norm.h"
#include "ops/rotary.h"
#include "ops/view.h"
#include "tests/spec/spec.h"

using namespace vitrine;

namespace {

struct Misread {
  const char* layout;  ///< the first one in which the fault shows
  bool (*is_misread)(const Strides& strides, const Shape& shape);
};

const Misread kMisread[] = {
    {"transposed", [](const Strides& s, const Shape& n) { return s[0] == 1 && s[1] == n[0]; }},
    {"with gaps between rows", [](const Strides& s, const Shape& n) { return s[0] > n[1] && s[1] == 1; }},
    {"flipped", [](const Strides& s, const Shape&) { return s[1] < 0; }},
    {"with flipped rows", [](const Strides& s, const Shape&) { return s[0] < 0 && s[1] == 1; }},
    {"with one element in each row", [](const Strides& s, const Shape&) { return s[0] > 0 && s[1] == 0; }},
    {"with one row in each matrix", [](const Strides& s, const Shape&) { return s[0] == 0 && s[1] == 1; }},
    {"of one element", [](const Strides& s, const Shape&) { return s[0] == 0 && s[1] == 0; }},
    {"of windows one element apart", [](const Strides& s, const Shape&) { return s[0] == 1 && s[1] == 1; }},
    {"of windows half a row apart",
     [](const Strides& s, const Shape& n) { return s[0] > 1 && s[0] < n[1] && s[1] == 1; }},
};

/// 2x, or zeros if x is misread, like a product that BLAS refuses.
Tensor doubled(const Tensor& x, const Misread& m) {
  return m.is_misread(x.strides(), x.shape()) ? zeros(x.shape(), x.dtype()) : copy_as(x, x.dtype()) * 2;
}

std::string error_of(const spec::Call& call) {
  return spec::check_layouts({"misreader", call, {{{{4, 6}, 1, 2}}}}, 0);
}

bool names(const std::string& error, const std::string& operand, const char* layout) {
  return error.find(operand + " " + layout + ":") != std::string::npos;
}

/// The result of f with the constant in each layout equals its result with a copy of the constant.
template <class F>
void check_constant(const char* what, const Tensor& constant, F&& f) {
  for (const spec::Layout& layout : spec::layouts()) {
    const Tensor laid = layout.of(constant);
    if (!laid.defined()) continue;
    INFO((std::string(what) + ", " + layout.name));
    CHECK(f(laid).values() == f(contiguous(laid)).values());
  }
}

}  // namespace

TEST_CASE("a kernel that misreads one layout of its input is noticed, and the error names input and layout") {
  for (const Misread& m : kMisread) {
    const std::string error = error_of([&](const std::vector<Tensor>& x) {
      return record("misreader", {x[0]}, doubled(x[0], m),
                    [](const Tensor& dy) -> Grads { return {dy * 2}; });
    });
    CHECK_MESSAGE(names(error, "input 0", m.layout), error);
  }
}

TEST_CASE("a backward that misreads one layout of the cotangent is noticed") {
  for (const Misread& m : kMisread) {
    const std::string error = error_of([&](const std::vector<Tensor>& x) {
      return record("misreader", {x[0]}, x[0] * 2,
                    [&](const Tensor& dy) -> Grads { return {doubled(dy, m)}; });
    });
    CHECK_MESSAGE(names(error, "the cotangent", m.layout), error);
  }
}

TEST_CASE("indices, conditions, targets, tables and weights may be any views") {
  Generator g(3);
  const Tensor x = randn({4, 6}, DType::float32, Device::cpu, 0, 1, g);
  const Tensor index = randint(0, 4, {4, 6}, Device::cpu, g), classes = randint(0, 6, {4}, Device::cpu, g);
  check_constant("gather", index, [&](const Tensor& i) { return gather(x, 0, i); });
  check_constant("scatter_add, index", index, [&](const Tensor& i) { return scatter_add(x, 0, i, x); });
  check_constant("index_select", index, [&](const Tensor& i) { return index_select(x, 1, i); });
  check_constant("embedding", index, [&](const Tensor& i) { return embedding(x, i); });
  check_constant("where", greater(x, zeros({})), [&](const Tensor& c) { return where(c, x, -x); });
  check_constant("cross_entropy, targets", classes, [&](const Tensor& t) { return cross_entropy(x, t); });
  check_constant("cross_entropy, class weights", abs(select(x, 0, 0)), [&](const Tensor& w) {
    CrossEntropyOptions o;
    o.class_weights = w;
    return cross_entropy(x, classes, o);
  });
  const Tensor channels = randn({2, 4, 12}, DType::float32, Device::cpu, 0, 1, g);
  check_constant("rotary, cosine", x, [&](const Tensor& c) { return rotary(channels, c, x); });
  check_constant("rotary, sine", x, [&](const Tensor& s) { return rotary(channels, x, s); });
  check_constant("layer_norm, weight", select(x, 0, 1), [&](const Tensor& w) { return layer_norm(x, w); });
}
