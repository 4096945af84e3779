// Storage: what is released, and in which way.
#include "core/storage.h"

#include <doctest/doctest.h>

#include "core/creation.h"

using namespace vitrine;

namespace {

constexpr int kLong = 200'000;  // a recursion this deep overflows a stack of 8 MiB

}  // namespace

TEST_CASE("a chain of a million leaves, each the gradient of the next, is freed without recursion") {
  Tensor last = tensor({1}).requires_grad();
  const std::weak_ptr<Storage> first = last.shared_storage();
  for (int i = 0; i < 1'000'000; ++i) {
    Tensor next = empty({1});
    next.requires_grad();
    next.leaf()->grad = std::move(last);
    last = std::move(next);
  }
  last = Tensor();
  CHECK(first.expired());
}

TEST_CASE("so is one that is made by grad().requires_grad()") {
  const Tensor x = tensor({1}).requires_grad();
  Tensor end = x;
  for (int i = 0; i < kLong; ++i) {
    end.set_grad(empty({1}));
    end = end.grad().requires_grad();
  }
  CHECK(end.shape() == Shape{1});
  x.zero_grad();
  CHECK(!x.grad().defined());
}

TEST_CASE("so is a chain of storages that keep each other alive") {
  Tensor x = tensor({3, 4});
  const std::weak_ptr<Storage> first = x.shared_storage();
  for (int i = 0; i < kLong; ++i)
    x = Tensor(std::make_shared<Storage>(x.raw(), 8, Device::cpu, x.shared_storage()), {2}, {1}, 0,
               DType::float32);
  CHECK(x.values() == std::vector<double>{3, 4});
  x = Tensor();
  CHECK(first.expired());
}
