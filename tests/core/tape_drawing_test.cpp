// The drawing of a tape.
#include <doctest/doctest.h>

#include <string>

#include "core/creation.h"
#include "core/record.h"
#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/view.h"

using namespace vitrine;

namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

}  // namespace

TEST_CASE("a drawing shows parameters, inputs, masks, targets and the loss, in the frames of their modules") {
  Tensor table = ones({5, 4}).requires_grad(), w = ones({4, 3}).requires_grad();
  table.leaf()->name = "net.0.table";
  const Tensor ids = index_tensor(std::vector<int64_t>{1, 3}, {2}),
               targets = index_tensor(std::vector<int64_t>{0, 2}, {2});
  const Tensor mask = ones({2, 4}, DType::boolean), scale = full({2, 4}, 2);
  Tape tape;
  const Tensor watched = tape.watch(ones({2, 3}));
  Tensor x;
  {
    const ModuleScope outer("net.0");
    x = embedding(table, ids);
    const ModuleScope inner("inner");
    x = where(mask, x * scale, 0.0);
  }
  const Tensor scores = matmul(reshape(reshape(x, {4, 2}), {2, 4}), w) + watched;
  const Tensor loss = cross_entropy(scores, targets);
  const std::string dot = tape.to_dot();
  INFO(dot);
  CHECK(dot.find("rankdir=TB") != std::string::npos);
  for (const char* box : {"label=\"table\\n[5, 4]\"", "label=\"parameter\\n[4, 3]\"",
                          "label=\"watched\\n[2, 3]\"", "label=\"float32[2, 4]\"", "label=\"bool[2, 4]\"",
                          "label=\"loss\\n[]\"", "label=\"net.0\"", "label=\"inner\""})
    CHECK_MESSAGE(count(dot, box) == 1, box);
  CHECK(count(dot, "label=\"int64[2]\"") == 2);             // ids and targets
  CHECK(count(dot, " reshape\\n reshape\\n [2, 4]") == 1);  // views are words on their arrow
  CHECK(count(dot, "{") == count(dot, "}"));
  // The table is inside net.0, outside inner.
  const size_t outer = dot.find("label=\"net.0\""), leaf = dot.find("label=\"table"),
               inner = dot.find("label=\"inner\"");
  CHECK(outer < leaf);
  CHECK(leaf < inner);
}

TEST_CASE("a constant that several ops read is one box, and memory that is used again is another") {
  const Tensor x = ones({3}).requires_grad();
  Tape tape;
  const Tensor c = full({3}, 2);
  Tensor y = x * c + c;
  for (int i = 0; i < 3; ++i) y = y + full({3}, i);  // freed after each op
  const std::string dot = tape.to_dot();
  CHECK_MESSAGE(count(dot, "label=\"float32[3]\"") == 4, dot);
}
