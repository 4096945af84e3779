// Shapes, allocator, 16-bit floats, random numbers, parallel loops, printing, parameters and the
// profiler.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/creation.h"
#include "core/memory/allocator.h"
#include "core/parallel.h"
#include "core/parameter.h"
#include "core/philox.h"
#include "core/print.h"
#include "core/profiler.h"
#include "core/random.h"
#include "core/record.h"
#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/folder.h"

using namespace vitrine;

namespace {

/// The 16-bit type's value by its definition: sign, exponent and fraction.
double by_definition(uint16_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1,
            exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
  const double fraction = (bits & ((1 << fraction_bits) - 1)) / static_cast<double>(1 << fraction_bits);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction != 0 ? NAN : sign * INFINITY;
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias));
}

/// Every value of H is unchanged by rounding. A number between two neighbours is rounded to the
/// nearer one, and a number halfway to the even one.
template <class H>
void check_all_values(int exponent_bits, int fraction_bits) {
  for (int i = 0; i < 65536; ++i) {
    H h;
    h.bits = static_cast<uint16_t>(i);
    const double value = static_cast<float>(h), want = by_definition(h.bits, exponent_bits, fraction_bits);
    if (std::isnan(want)) {
      CHECK_UNARY(std::isnan(value));
      continue;
    }
    if (value != want || H(static_cast<float>(value)).bits != h.bits) FAIL(i);
    const int infinity = ((1 << exponent_bits) - 1) << fraction_bits;
    if ((i & 0x7fff) >= infinity - 1) continue;
    H next;
    next.bits = static_cast<uint16_t>(i + 1);
    const double middle = (value + static_cast<float>(next)) / 2, step = std::abs(middle - value);
    const uint16_t even = (h.bits & 1) == 0 ? h.bits : next.bits;
    const auto round = [](double x) { return H(static_cast<float>(x)).bits; };
    if (round(middle) != even || round(middle - std::copysign(step * 1e-3, middle)) != h.bits ||
        round(middle + std::copysign(step * 1e-3, middle)) != next.bits)
      FAIL(i);
  }
}

}  // namespace

TEST_CASE("bfloat16 and float16 round every value to nearest, ties to even") {
  check_all_values<bfloat16>(8, 7);
  check_all_values<float16>(5, 10);
  CHECK(static_cast<float>(float16(65519.0f)) == 65504);
  CHECK(std::isinf(static_cast<float>(float16(65520.0f))));
}

TEST_CASE("casts to 16 bits round once, from double and from integers too") {
  const double tie =
      1 + 0x1p-8;  // between two bfloat16; as a float it would still be one after a hair was added
  CHECK(cast(tensor({tie, tie + 0x1p-40, -tie - 0x1p-40}, DType::float64), DType::bfloat16).values() ==
        std::vector<double>{1, 1 + 0x1p-7, -1 - 0x1p-7});
  const double half = 1 + 0x1p-11;
  CHECK(cast(tensor({half, half + 0x1p-40}, DType::float64), DType::float16).values() ==
        std::vector<double>{1, 1 + 0x1p-10});
  const int64_t number = (int64_t{1} << 40) + (int64_t{1} << 32) + 1;
  CHECK(cast(index_tensor(std::vector<int64_t>{number}, {1}), DType::bfloat16).item() == 0x1p40 + 0x1p33);
  CHECK(cast(tensor({1e300, NAN, -INFINITY}, DType::float64), DType::float16).values()[0] == INFINITY);
  CHECK(std::isnan(cast(tensor({NAN}, DType::float64), DType::bfloat16).item()));
}

TEST_CASE("shapes broadcast, count and refuse as NumPy's") {
  CHECK(broadcast("op", {3, 1, 5}, {4, 1}) == Shape{3, 4, 5});
  CHECK(broadcast("op", {}, {2}) == Shape{2});
  CHECK(broadcast("op", {0, 1}, {1, 3}) == Shape{0, 3});
  CHECK_THROWS_WITH(broadcast("op", {2, 3}, {2, 4}), doctest::Contains("op: "));
  CHECK(numel({}) == 1);
  CHECK(numel({3, 0}) == 0);
  CHECK(contiguous_strides({2, 3, 4}) == Strides{12, 4, 1});
  CHECK_THROWS(numel({int64_t{1} << 40, int64_t{1} << 40}));
  CHECK(check_axis("op", {2, 3}, -1) == 1);
  CHECK_THROWS_WITH(check_axis("op", {2, 3}, 2), doctest::Contains("op: "));
  CHECK_THROWS(Shape({1, 1, 1, 1, 1, 1, 1, 1, 1}));
}

TEST_CASE("integers with floats keep the float; bfloat16 with float16 gives float32") {
  CHECK(promote(DType::int64, DType::bfloat16) == DType::bfloat16);
  CHECK(promote(DType::bfloat16, DType::float16) == DType::float32);
  CHECK(promote(DType::float32, DType::float64) == DType::float64);
  CHECK(promote(DType::boolean, DType::int32) == DType::int32);
  CHECK((ones({2}, DType::bfloat16) * 1.5).dtype() == DType::bfloat16);
}

TEST_CASE("the allocator counts, aligns, reuses, and says which op asked") {
  const auto start = memory::statistics();
  const void* first = nullptr;
  {
    const Tensor x = empty({1000});
    first = x.raw();
    CHECK(reinterpret_cast<uintptr_t>(first) % 64 == 0);
    CHECK(memory::statistics().now >= start.now + 4000);
    CHECK(memory::statistics().allocations == start.allocations + 1);
  }
  CHECK(memory::statistics().now == start.now);
  memory::reset_peak();
  { const Tensor big = empty({1 << 20}); }
  CHECK(memory::statistics().peak >= start.now + (4u << 20));
  memory::reset_peak();
  CHECK(memory::statistics().peak == memory::statistics().now);
  memory::track_ops(true);
  const Tensor y = exp(ones({500}));
  memory::track_ops(false);
  CHECK(memory::by_op().at("exp") >= 2000);
  CHECK(memory::by_op().at("fill") >= 2000);
}

TEST_CASE("devices have names, and GPUs are counted") {
  for (const char* text : {"cpu", "cuda:0", "cuda:1", "cuda:127"}) CHECK(to_string(device_of(text)) == text);
  CHECK(device_of("cuda") == Device::cuda);
  for (const char* text : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:128", "CPU"})
    CHECK_THROWS_WITH(device_of(text), doctest::Contains("wanted cpu, cuda, or the number of a GPU"));
#if VITRINE_CUDA_EMULATED
  CHECK(gpu_count() == 2);
#elif !VITRINE_CUDA_KERNELS
  CHECK(gpu_count() == 0);
#endif
}

TEST_CASE("Philox gives the known words, uniforms lie in [0, 1), and a generator goes on where it was") {
  // The known answers published with the generator: counter and key of zeros, of ones, and of the
  // digits of π.
  using Words = std::array<uint32_t, 4>;
  CHECK(philox(0, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  CHECK(to_uniform(0) == 0);
  CHECK(to_uniform(0xffffffff) < 1);
  Generator a(7), b(7);
  CHECK(rand({10}, DType::float32, Device::cpu, 0, 1, a).values() ==
        rand({10}, DType::float32, Device::cpu, 0, 1, b).values());
  b.set(a.seed(), a.offset());
  CHECK(randn({5}, DType::float32, Device::cpu, 0, 1, a).values() ==
        randn({5}, DType::float32, Device::cpu, 0, 1, b).values());
  const auto u = rand({40000}, DType::float32, Device::cpu, -2, 3, a).values();
  double sum = 0;
  for (double x : u) {
    CHECK_UNARY(x >= -2 && x < 3);
    sum += x;
  }
  CHECK(sum / 40000 == doctest::Approx(0.5).epsilon(0.05));
  double squares = 0;
  for (double z : randn({40000}, DType::float64, Device::cpu, 1, 2, a).values()) squares += (z - 1) * (z - 1);
  CHECK(squares / 40000 == doctest::Approx(4).epsilon(0.05));
}

TEST_CASE("rand stays below its upper bound in every dtype, also where rounding would reach it") {
  for (DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16})
    for (const auto& [low, high] :
         {std::pair{0.0, 1.0}, {-2.0, 3.0}, {-1.0, 0.0}, {-3.0, -1.0}, {100.0, 100.1}}) {
      Generator generator(1);
      const Tensor x = rand({100000}, dtype, Device::cpu, low, high, generator);
      const auto values = x.values();
      // A number less than `high` may round to a number above it, and a number near `low` to one
      // below it, if the type has few values there.
      const double lowest = copy_as(Tensor(low, DType::float64), dtype).item();
      CHECK(*std::max_element(values.begin(), values.end()) < high);
      CHECK(*std::min_element(values.begin(), values.end()) >= std::min(low, lowest));
    }
  CHECK(rand({3}, DType::float32, Device::cpu, 2, 2).values() == std::vector<double>(3, 2));
  CHECK_THROWS_WITH(rand({3}, DType::float32, Device::cpu, 1, 0), "rand: the range [1, 0) is empty");
  CHECK_THROWS_WITH(rand({3}, DType::float64, Device::cpu, -1e308, 1e308),
                    doctest::Contains("has no finite length"));
  CHECK_THROWS_WITH(rand({3}, DType::float32, Device::cpu, NAN, 1),
                    doctest::Contains("has no finite length"));
  CHECK_THROWS_WITH(rand({3}, DType::float16, Device::cpu, 0, 1e6),
                    "rand: the range [0, 1000000) goes beyond the numbers of float16");
  CHECK_THROWS_WITH(randint(INT64_MIN, INT64_MAX, {3}), doctest::Contains("randint: the range"));
}

TEST_CASE("floats that no integer holds become the nearest end, and NaN becomes 0") {
  const std::vector<double> values = {NAN, 1e30, -1e30, INFINITY, -INFINITY, -2.9};
  for (DType from : {DType::float32, DType::float64, DType::bfloat16}) {
    const Tensor x = tensor(values, {6}, from);
    const Tensor small = copy_as(x, DType::int32), large = copy_as(x, DType::int64);
    const std::vector<int32_t> got32(small.data<int32_t>(), small.data<int32_t>() + 6);
    const std::vector<int64_t> got64(large.data<int64_t>(), large.data<int64_t>() + 6);
    CHECK(got32 == std::vector<int32_t>{0, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, -2});
    CHECK(got64 == std::vector<int64_t>{0, INT64_MAX, INT64_MIN, INT64_MAX, INT64_MIN, -2});
  }
}

TEST_CASE("tensors print as NumPy prints them, large ones in short") {
  CHECK(to_string(tensor({1, 2, 3, 4}, {2, 2}, DType::int64)) == "[[1, 2],\n [3, 4]] int64[2, 2] on cpu");
  CHECK(to_string(tensor({1, 0}, DType::boolean)) == "[ true, false] bool[2] on cpu");
  CHECK(to_string(full({}, 2.5)) == "2.5 float32[] on cpu");
  CHECK(to_string(tensor({1, 2.5, -0.125})) == "[ 1.   ,  2.5  , -0.125] float32[3] on cpu");
  CHECK(to_string(tensor({1, 2})) == "[1., 2.] float32[2] on cpu");
  CHECK(to_string(tensor({1e8, -1.5e9})) == "[ 1.0e+08, -1.5e+09] float32[2] on cpu");
  CHECK(to_string(tensor({0.00001, 1, NAN})) == "[1.e-05, 1.e+00,    nan] float32[3] on cpu");
  CHECK(to_string(full({2}, 2.0 / 3), 2) == "[0.67, 0.67] float32[2] on cpu");
  CHECK(to_string(zeros({0, 3})) == "[] float32[0, 3] on cpu");
  CHECK(to_string(zeros({int64_t{1} << 40, 0})) == "[] float32[1099511627776, 0] on cpu");
  const std::vector<int64_t> exact = {INT64_MAX, (int64_t{1} << 53) + 1};
  CHECK(to_string(index_tensor(exact, {2})) == "[9223372036854775807,    9007199254740993] int64[2] on cpu");
  const Tensor cube = reshape(arange(0, 7 * 2 * 700), {7, 2, 700});
  CHECK(to_string(transpose(cube, 0, 1))
            .starts_with("[[[   0,    1,    2, ...,  697,  698,  699],\n  [1400, "));
  CHECK(to_string(select(cube, 1, 0)) ==
        "[[   0,    1,    2, ...,  697,  698,  699],\n [1400, 1401, 1402, ..., 2097, 2098, 2099],\n"
        " [2800, 2801, 2802, ..., 3497, 3498, 3499],\n ...,\n"
        " [5600, 5601, 5602, ..., 6297, 6298, 6299],\n [7000, 7001, 7002, ..., 7697, 7698, 7699],\n"
        " [8400, 8401, 8402, ..., 9097, 9098, 9099]] int64[7, 700] on cpu");
  memory::reset_peak();
  const size_t before = memory::statistics().now;
  const Tensor everywhere =
      expand(tensor({1.5}), {int64_t{1} << 20, int64_t{1} << 20});  // 4 TiB if it were copied
  CHECK(to_string(everywhere).starts_with("[[1.5, 1.5, 1.5, ..., 1.5, 1.5, 1.5],"));
  CHECK(memory::statistics().peak < before + 100000);
  const std::string large = to_string(arange(0, 5000));
  CHECK(large.size() < 200);
  CHECK(large.find("4999") != std::string::npos);
  CHECK(large.find("2500") == std::string::npos);
  CHECK(to_string(tensor({NAN, INFINITY, -INFINITY})).find("nan") != std::string::npos);
}

TEST_CASE("a parameter keeps a float32 master under a low-precision copy, and clones apart") {
  Parameter p(full({2}, 1.0 / 3));
  p.to(DType::bfloat16);
  CHECK(p.dtype() == DType::bfloat16);
  CHECK(p.master().dtype() == DType::float32);
  CHECK(p.value().values()[0] == static_cast<double>(static_cast<float>(bfloat16(1.0f / 3))));
  Parameter same = p, other = p.clone();
  p.assign(full({2}, 5.0));
  CHECK(same.value().values()[0] == 5);
  CHECK(other.value().values()[0] != 5);
  CHECK(same.is_same(p));
  p.to(DType::float64);
  CHECK(p.master().dtype() == DType::float64);
  CHECK_THROWS_WITH(p.assign(zeros({3})), doctest::Contains("wanted values of shape [2]"));
  CHECK_THROWS_WITH(Parameter(zeros({2}, DType::bfloat16)), doctest::Contains("wanted float32 or float64"));
}

TEST_CASE("a frozen parameter keeps its name and has no gradient, until it is thawed") {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    Parameter p(full({2}, 3.0)), q(full({2}, 2.0));
    p.to(dtype);
    p.set_name("weights");
    const auto derive = [&](const Parameter& of) {
      Tape tape;
      tape.backward(sum(of.value() * q.value()));
    };
    p.requires_grad(false);
    CHECK_FALSE(p.clone().requires_grad());
    derive(p);
    CHECK_FALSE(p.grad().defined());
    CHECK(q.grad().values() == std::vector<double>{3, 3});
    p.to(DType::float64);
    p.to(dtype);
    CHECK_FALSE(p.requires_grad());
    CHECK(p.name() == "weights");
    CHECK(p.clone().name() == "weights");
    p.requires_grad(true);
    CHECK(p.master().leaf()->name == "weights");
    derive(p);
    CHECK(p.grad().values() == std::vector<double>{2, 2});
    Tensor handle = p.master();
    handle.requires_grad(false);  // as on any tensor
    CHECK(p.name() == "weights");
  }
}

TEST_CASE("the profiler sums by op and module, and writes a trace that Chrome reads") {
  const test::Folder folder;
  Profiler profiler;
  {
    const ModuleScope scope("blocks.1");
    matmul(ones({64, 64}), ones({64, 64}));
    exp(ones({10}));
  }
  const auto ops = profiler.by_op(), modules = profiler.by_module();
  const auto find = [](const std::vector<Profiler::Row>& rows, const std::string& name) {
    for (const auto& row : rows)
      if (row.name == name) return row.calls;
    return int64_t{0};
  };
  CHECK(find(ops, "matmul") == 1);
  CHECK(find(ops, "exp") == 1);
  CHECK(find(ops, "fill") == 3);
  CHECK(find(modules, "blocks.1") == 5);
  Tape tape;
  const Tensor x = tape.watch(ones({2, 2}));
  Tensor y;
  {
    const ModuleScope scope("blocks.2");
    y = matmul(x, x);
  }
  const int64_t outside = find(profiler.by_module(), "(none)");
  CHECK(find(profiler.by_module(), "blocks.2") == 1);
  tape.gradient({y}, {x}, {y});
  CHECK(find(profiler.by_module(), "blocks.2") >= 3);  // the products for either operand
  CHECK(find(profiler.by_module(), "(none)") == outside);
  profiler.write_chrome_trace(folder / "trace.json");
  // The file is replaced as a whole, and a link to it stays.
  std::filesystem::create_symlink("trace.json", folder / "link");
  profiler.write_chrome_trace(folder / "link");
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(nlohmann::json::parse(std::ifstream(folder / "trace.json"))["traceEvents"].size() >= 5);
  CHECK_THROWS_WITH_AS(profiler.write_chrome_trace(folder / "none/trace.json"),
                       doctest::Contains("write_chrome_trace: "), Error);
  const auto trace = nlohmann::json::parse(std::ifstream(folder / "trace.json"));
  const auto& events = trace.is_array() ? trace : trace["traceEvents"];
  CHECK(events.size() >= 5);
  for (const auto& e : events)
    if (e.value("ph", "") == "X") CHECK(e["dur"].get<double>() >= 0);
  std::ostringstream table;
  profiler.print(table);
  CHECK(table.str().find("matmul") != std::string::npos);
}
