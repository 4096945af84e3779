// The gradient of a large table begins with clearing the rows that the last one wrote; its values
// are those of a gradient that begins with zeros.
#include "core/written_rows.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "core/creation.h"
#include "core/recompute.h"
#include "core/record.h"
#include "core/tape.h"
#include "core/tensor_kernels.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/gradients.h"
#include "tests/memory_use.h"
#include "tests/ops/reference.h"

using namespace vitrine;

namespace {

constexpr int64_t kRows = 4096, kWidth = 80;
const std::vector<std::vector<int64_t>> kSteps = {{5, 7, 5, 4095}, {0, 7, 7, 9}, {1, 2, 3, 4}, {9, 9, 9, 0}};

Tensor ids_of(const std::vector<int64_t>& ids) {
  return index_tensor(ids, {static_cast<int64_t>(ids.size())});
}

/// Rows of the table with a different weight for each element.
Tensor loss_of(const Tensor& table, const std::vector<int64_t>& ids) {
  return sum(embedding(table, ids_of(ids)) * test::normal({static_cast<int64_t>(ids.size()), kWidth},
                                                          static_cast<uint64_t>(ids[0]), DType::float32));
}

Tensor leaf() { return test::normal({kRows, kWidth}, 1, DType::float32).requires_grad(); }

void run_backward(const Tensor& loss) { Tape::recording()->backward(loss); }

void add_gradient(const Tensor& table, const std::vector<int64_t>& ids) {
  Tape tape;
  run_backward(loss_of(table, ids));
}

/// The gradient of a table that had none before.
Tensor wanted(const std::vector<int64_t>& ids) {
  const Tensor table = leaf();
  add_gradient(table, ids);
  return table.grad();
}

/// The gradient as the library's own code sees it: no handle is given to a user.
const Tensor& inside(const Tensor& table) { return table.leaf()->grad; }

float& element(const Tensor& x, int64_t row) { return x.data<float>()[row * kWidth]; }

}  // namespace

TEST_CASE("a table's next gradient has the same memory, whose written rows alone were cleared") {
  const Tensor table = leaf();
  add_gradient(table, kSteps[0]);
  const void* const memory = inside(table).raw();
  element(inside(table), 100) = 3;  // unnoticed: no handle, no kernel
  element(inside(table), 5) = 4;
  for (size_t i = 1; i < kSteps.size(); ++i) {
    table.zero_grad();
    CHECK(!table.grad().defined());
    add_gradient(table, kSteps[i]);
    CHECK(inside(table).raw() == memory);
    CHECK(element(inside(table), 100) == 3);
    element(inside(table), 100) = 0;
    CHECK(test::same_bits(inside(table), wanted(kSteps[i])));
    element(inside(table), 100) = 3;
  }
}

TEST_CASE("a backward of rows takes no memory of the table's size, after others and after zero_grad") {
  const Tensor table = leaf();
  const auto peak = [&] { return test::memory_use([&] { add_gradient(table, kSteps[0]); }).peak; };
  constexpr size_t kSmall = kRows * kWidth * sizeof(float) / 8;
  add_gradient(table, kSteps[1]);
  CHECK(peak() < kSmall);
  table.zero_grad();
  CHECK(peak() < kSmall);
  {
    Tape tape;
    run_backward(sum(table * 2.0));  // dense
  }
  CHECK(peak() < kSmall);
  table.zero_grad();
  // ThreadSanitizer does not report the memory of tensors.
  const bool seen = test::memory_use([] { zeros({kRows, kWidth}); }).peak > kSmall;
  CHECK((peak() > kSmall) == seen);
}

TEST_CASE("the second gradient is right whatever the user did with the first") {
  for (int way = 0; way < 9; ++way) {
    const Tensor table = leaf();
    add_gradient(table, kSteps[0]);
    Tensor held;
    if (way == 0) element(table.grad(), 100) = 3;
    if (way == 1) table.set_grad(test::normal({kRows, kWidth}, 2, DType::float32));
    if (way == 2) held = table.grad();
    if (way == 3) VITRINE_RUN(fill, table.leaf()->grad, 2.0);
    if (way == 4) {
      Tape tape;
      run_backward(sum(table * 2.0));
    }
    if (way == 5) {
      Tape tape;
      tape.on_gradient(table, [](const Tensor& g) {
        element(g, 100) = 3;
        return Tensor();
      });
      run_backward(loss_of(table, kSteps[1]));
    }
    if (way == 6) add_gradient(table, kSteps[3]);
    if (way == 7) held = inside(table);
    if (way == 8) {  // an op that adds without a kernel
      Tape tape;
      const auto add = [](Tensor& sum, bool) { element(sum, 100) += 3; };
      run_backward(
          record("mine", {table}, zeros({}), [add](const Tensor&) -> Grads { return {Grad::into(add)}; }));
    }
    table.zero_grad();
    add_gradient(table, kSteps[1]);
    CHECK_MESSAGE(test::same_bits(table.grad(), wanted(kSteps[1])), way);
    if (held.defined()) CHECK(test::same_bits(held, wanted(kSteps[0])));
  }
}

TEST_CASE("a handle of before that is written later changes no other gradient") {
  const Tensor table = leaf();
  add_gradient(table, kSteps[0]);
  const Tensor held = table.grad();
  table.zero_grad();
  add_gradient(table, kSteps[1]);
  element(held, 100) = 3;
  table.zero_grad();
  add_gradient(table, kSteps[2]);
  CHECK(test::same_bits(table.grad(), wanted(kSteps[2])));
}

TEST_CASE("the row numbers of an op may be overwritten after its backward") {
  const Tensor table = leaf(), rows = ids_of(kSteps[0]);
  for (const auto& ids : {kSteps[1], kSteps[2]}) {
    Tape tape;
    run_backward(record("mine", {table}, zeros({}), [rows](const Tensor&) -> Grads {
      return {Grad::rows(ones({rows.numel(), kWidth}), rows)};
    }));
    std::copy(ids.begin(), ids.end(), rows.data<int64_t>());
    table.zero_grad();
  }
  add_gradient(table, kSteps[3]);
  CHECK(test::same_bits(table.grad(), wanted(kSteps[3])));
}

TEST_CASE("rows of several backwards are added up, and all of them cleared") {
  const Tensor table = leaf();
  for (int round = 0; round < 2; ++round) {
    add_gradient(table, kSteps[0]);
    add_gradient(table, kSteps[1]);
    const Tensor both = wanted(kSteps[0]);
    const Tensor rows = wanted(kSteps[1]);
    for (int64_t i = 0; i < kRows * kWidth; ++i) both.data<float>()[i] += rows.data<float>()[i];
    // Row 7 is in both, and is added in the order of its tokens.
    for (int64_t row = 0; row < kRows; ++row)
      if (row != 7) CHECK(element(inside(table), row) == element(both, row));
    table.zero_grad();
  }
  add_gradient(table, kSteps[2]);
  CHECK(test::same_bits(table.grad(), wanted(kSteps[2])));
}

TEST_CASE("clipping and an optimizer's step leave the rows known, and the steps are the same") {
  const auto train = [](bool look) {
    Parameter table(test::normal({kRows, kWidth}, 1, DType::float32));
    optim::Adam adam({table}, {.lr = 0.1});
    for (const auto& ids : kSteps) {
      adam.zero_grad();
      add_gradient(table, ids);
      optim::clip_gradients({table}, 0.1);
      if (look) CHECK(optim::gradient_norm({table}) == doctest::Approx(0.1));
      adam.step();
      const Leaf& leaf = *table.master().leaf();
      CHECK(leaf.written_rows->describe(leaf.grad));
      if (look) table.grad();  // the next step begins with new zeros
      CHECK(leaf.written_rows->describe(leaf.grad) != look);
    }
    return copy_as(table.master(), DType::float32);
  };
  CHECK(test::same_bits(train(false), train(true)));
}

TEST_CASE("a table that is also the head, and one in a recomputed part, have the gradients of fresh ones") {
  const auto gradients = [](bool recomputed, bool fresh) {
    std::vector<Tensor> result;
    Tensor table = leaf();
    for (const auto& ids : kSteps) {
      if (fresh) table = leaf();
      table.zero_grad();
      {
        Tape tape;
        const auto forward = [&] { return tanh(embedding(table, ids_of(ids))); };
        const Tensor x = recomputed ? recompute(forward) : linear(forward(), table);
        run_backward(sum(x) + (recomputed ? loss_of(table, {1, 2}) : loss_of(table, ids)));
      }
      result.push_back(copy_as(inside(table), DType::float32));
    }
    return result;
  };
  for (const bool recomputed : {false, true}) {
    const auto kept = gradients(recomputed, false), fresh = gradients(recomputed, true);
    for (size_t i = 0; i < kept.size(); ++i) CHECK(test::same_bits(kept[i], fresh[i]));
  }
}
