// uint8, the dtype of images.
#include "core/dtype.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "core/print.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/sort.h"
#include "ops/view.h"

using namespace vitrine;

namespace {

using V = std::vector<double>;

constexpr DType kOthers[] = {DType::float32, DType::float64, DType::bfloat16, DType::float16,
                             DType::int64,   DType::int32,   DType::dual64};

const Tensor& bytes() {
  static const Tensor x = tensor(std::vector<uint8_t>{0, 1, 127, 128, 254, 255}, {2, 3});
  return x;
}

}  // namespace

TEST_CASE("every byte has its number in every dtype, and comes back from it") {
  std::vector<uint8_t> all(256);
  for (size_t i = 0; i < 256; ++i) all[i] = static_cast<uint8_t>(i);
  const Tensor x = tensor(all, {256});
  for (const DType dtype : kOthers) {
    const Tensor y = cast(x, dtype);
    CHECK(y.dtype() == dtype);
    for (size_t i = 0; i < 256; ++i) CHECK(y.values()[i] == static_cast<double>(i));
    CHECK(cast(y, DType::uint8).values() == x.values());
  }
  CHECK(cast(bytes(), DType::boolean).values() == V{0, 1, 1, 1, 1, 1});
  CHECK(cast(tensor({0, 1}, DType::boolean), DType::uint8).values() == V{0, 1});
  CHECK(cast(transpose(bytes()), DType::float32).values() == V{0, 128, 1, 254, 127, 255});
}

TEST_CASE("floats become the nearest byte below in size or the end of the range, integers wrap around") {
  const Tensor x = tensor({-300, -0.5, 2.9, 254.9, 256, INFINITY, -INFINITY, NAN, 3e9}, DType::float64);
  for (const DType dtype : {DType::float64, DType::float32})
    CHECK(copy_as(cast(x, dtype), DType::uint8).values() == V{0, 0, 2, 254, 255, 255, 0, 0, 255});
  CHECK(full({}, 255, DType::uint8).item() == 255);
  for (const DType dtype : {DType::int32, DType::int64})
    CHECK(copy_as(tensor({-1, 256, 300, -256, 511}, dtype), DType::uint8).values() == V{255, 0, 44, 0, 255});
  CHECK(copy_as(tensor({4294967297.0, -1}, DType::int64), DType::uint8).values() == V{1, 255});
}

TEST_CASE("arithmetic of bytes is that of int32, modulo 256") {
  const Tensor x = bytes(), y = tensor(std::vector<uint8_t>{3, 200, 2}, {3});
  using F = Tensor (*)(const Tensor&, const Tensor&);
  for (const F f : {F(add), F(sub), F(mul), F(maximum), F(minimum), F(pow)}) {
    const Tensor z = f(x, y);
    CHECK(z.dtype() == DType::uint8);
    CHECK(z.values() == copy_as(f(cast(x, DType::int32), cast(y, DType::int32)), DType::uint8).values());
  }
  CHECK((x + 2).values() == V{2, 3, 129, 130, 0, 1});
  CHECK(neg(x).values() == V{0, 255, 129, 128, 2, 1});
  CHECK((x / y).dtype() == DType::float32);
  CHECK(matmul(x, y).dtype() == DType::uint8);
  CHECK(matmul(x, y).values() == V{454 % 256, (128 * 3 + 254 * 200 + 255 * 2) % 256});
  CHECK((x + tensor({1000}, DType::int32)).dtype() == DType::int32);
  CHECK((x + tensor({0.5})).dtype() == DType::float32);
  CHECK((x + tensor({1}, DType::boolean)).dtype() == DType::uint8);
}

TEST_CASE("bytes are compared, chosen, ordered and added up without a sign") {
  const Tensor x = bytes();
  CHECK(greater(x, full({}, 127, DType::uint8)).values() == V{0, 0, 0, 1, 1, 1});
  CHECK(where(greater(x, full({}, 1, DType::uint8)), x, 9).values() == V{9, 9, 127, 128, 254, 255});
  CHECK(sum(x).dtype() == DType::int64);
  CHECK(sum(x).item() == 765);
  CHECK(cumsum(x, 1).values() == V{0, 1, 128, 128, 382, 637});
  CHECK(max(x).dtype() == DType::uint8);
  CHECK(max(x, {0}).values() == V{128, 254, 255});
  CHECK(argmax(x, 1).values() == V{2, 2});
  CHECK(sort(x, 1, true).values.values() == V{127, 1, 0, 255, 254, 128});
  CHECK(any(x, {1}).values() == V{1, 1});
  CHECK(all(x, {1}).values() == V{0, 1});
}

TEST_CASE("bytes are read by index, and are indices") {
  const Tensor x = bytes(), index = tensor<uint8_t>({1, 0}, {2});
  CHECK(index_select(x, 0, index).dtype() == DType::uint8);
  CHECK(index_select(x, 0, index).values() == V{128, 254, 255, 0, 1, 127});
  CHECK(gather(x, 1, tensor<uint8_t>({2, 0}, {2, 1})).values() == V{127, 128});
  CHECK(scatter_add(x, 1, tensor<uint8_t>({2, 2}, {2, 1}), full({2, 1}, 2, DType::uint8)).values() ==
        V{0, 1, 129, 128, 254, 1});
  CHECK(embedding(tensor({1, 2, 3}, {3, 1}), index).values() == V{2, 1});
  CHECK(one_hot(index, 2).values() == V{0, 1, 1, 0});
}

TEST_CASE("bytes print as numbers, and uint8 has a name") {
  CHECK(to_string(bytes()).starts_with("[[  0,   1, 127],\n [128, 254, 255]] uint8[2, 3]"));
  CHECK(dtype_of("uint8") == DType::uint8);
  CHECK(size_of(DType::uint8) == 1);
  CHECK(promote(DType::uint8, DType::boolean) == DType::uint8);
  CHECK(promote(DType::uint8, DType::int32) == DType::int32);
  CHECK(promote(DType::uint8, DType::float16) == DType::float16);
}
