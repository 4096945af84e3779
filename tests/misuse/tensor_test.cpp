// Misuse of tensors: shapes, numbers, memory and devices that are not possible or not available.
#include "core/creation.h"
#include "core/parallel.h"
#include "core/parameter.h"
#include "core/random.h"
#include "core/tensor_kernels.h"
#include "ops/elementwise.h"
#include "ops/view.h"
#include "tests/misuse/misuse.h"

using namespace vitrine;
using namespace vitrine::test;

namespace {

struct Tensors : Scene {
  Tensor x = tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  Parameter p = Parameter(tensor({1, 2}));
  Generator generator = Generator(5);
  std::string state() const override {
    return show(x) + show(p.master()) + fmt::format("{} {}\n", threads(), generator.offset());
  }
};

constexpr int64_t kHuge = int64_t{1} << 40;

std::vector<Misuse> creation(Tensors& s) {
  const auto right = [] { return zeros({2, 3}); };
  return {
      {"a negative size",
       [] {
         zeros({-1, 2});
       },
       {"shape [-1, 2]", "the size -1 is negative"},
       right},
      {"nine axes",
       [] {
         zeros({1, 1, 1, 1, 1, 1, 1, 1, 1});
       },
       {"at most 8 axes, got 9"},
       right},
      {"more elements than can be counted",
       [] {
         zeros({kHuge, kHuge});
       },
       {"[1099511627776, 1099511627776]", "more elements than an int64 can count"},
       right},
      {"more bytes than can be counted",
       [] { zeros({int64_t{1} << 61}); },
       {"[2305843009213693952]", "more bytes than an int64 can count"},
       right},
      {"more memory than there is",
       [] {
         zeros({128, kHuge});
       },
       {"a tensor float32[128, 1099511627776]", "out of memory", "562949953421312 bytes"},
       right},
      {"arange of more than there is memory for",
       [] { arange(0, 1e14); },
       {"[100000000000000]", "out of memory", "800000000000000 bytes"},
       [] { return arange(0, 3); }},
      {"linspace of more than there is memory for",
       [] { linspace(0, 1, kHuge * 64); },
       {"[70368744177664]", "out of memory"},
       [] { return linspace(0, 1, 3); }},
      {"arange with step 0",
       [] { arange(0, 1, 0); },
       {"arange: the step is 0"},
       [] { return arange(0, 1, 1); }},
      {"arange without end",
       [] { arange(0, INFINITY); },
       {"arange: start 0 and stop inf must be finite"},
       [] { return arange(0, 5); }},
      {"arange of fractions as integers",
       [] { arange(0, 1, 0.25); },
       {"arange: the number 0.25 is not whole", "int64"},
       [] { return arange(0, 1, 0.25, DType::float32); }},
      {"linspace of a negative count",
       [] { linspace(0, 1, -1); },
       {"linspace: the count is -1, wanted at least 0"},
       [] { return linspace(0, 1, 0); }},
      {"values that do not fill the shape",
       [] {
         tensor({1, 2, 3}, {2, 2});
       },
       {"tensor: 3 values do not fill the shape [2, 2]"},
       [] {
         return tensor({1, 2, 3, 4}, {2, 2});
       }},
      {"a fraction as an integer",
       [] { full({2}, 0.5, DType::int32); },
       {"full: the number 0.5 is not whole", "int32"},
       [] { return full({2}, 5, DType::int32); }},
      {"NaN as an integer",
       [] {
         tensor({1, NAN}, DType::int64);
       },
       {"tensor: the number nan is not whole", "int64"},
       [] {
         return tensor({1, NAN});
       }},
      {"a number beyond int32",
       [] { full({2}, 3e9, DType::int32); },
       {"full: the number 3000000000", "range of int32"},
       [] { return full({2}, 3e9, DType::int64); }},
      {"a negative number as uint8",
       [] { full({2}, -1, DType::uint8); },
       {"full: the number -1", "range of uint8"},
       [] { return full({2}, 255, DType::uint8); }},
      {"a vector of elements that do not fill the shape",
       [] {
         tensor(std::vector<int32_t>{1, 2, 3}, {2, 2});
       },
       {"tensor: 3 values do not fill the shape [2, 2]"},
       [] {
         return tensor(std::vector<int32_t>{1, 2, 3, 4}, {2, 2});
       }},
      {"a vector of elements beyond the dtype",
       [] {
         tensor(std::vector<int64_t>{1, 256}, {2}, DType::uint8);
       },
       {"tensor: the number 256", "range of uint8"},
       [] {
         return tensor(std::vector<int64_t>{1, 255}, {2}, DType::uint8);
       }},
      {"an identity of negative size",
       [] { eye(-2); },
       {"shape [-2, -2]", "negative"},
       [] { return eye(2); }},
      {"random integers of an empty range",
       [&] { randint(3, 3, {2}, Device::cpu, s.generator); },
       {"randint: the range [3, 3) is empty"},
       [&] { return randint(3, 5, {2}, Device::cpu, s.generator); }},
      {"random numbers of an empty range",
       [&] { rand({2}, DType::float32, Device::cpu, 2, 1, s.generator); },
       {"rand: the range [2, 1) is empty"},
       [&] { return rand({2}, DType::float32, Device::cpu, 1, 2, s.generator); }},
      {"a negative deviation",
       [&] { randn({2}, DType::float32, Device::cpu, 0, -1, s.generator); },
       {"randn: the deviation is -1, wanted at least 0"},
       [&] { return randn({2}, DType::float32, Device::cpu, 0, 1, s.generator); }},
      {"uniform integers from rand",
       [&] { rand({2}, DType::int64, Device::cpu, 0, 1, s.generator); },
       {"rand: wanted a floating dtype, got int64"},
       [&] { return randint(0, 2, {2}, Device::cpu, s.generator); }},
      {"an order of a negative number",
       [&] { randperm(-3, Device::cpu, s.generator); },
       {"randperm: n is -3, wanted at least 0"},
       [&] { return randperm(3, Device::cpu, s.generator); }},
  };
}

std::vector<Misuse> handles(Tensors& s) {
  const auto right = [&] { return s.x * 2; };
  return {
      {"item of six elements",
       [&] { s.x.item(); },
       {"item: wanted a tensor of one element, got float32[2, 3]"},
       right},
      {"elements as another type",
       [&] { s.x.data<double>(); },
       {"float32[2, 3] on cpu", "asked for as float64"},
       right},
      {"the size of an axis that is not there",
       [&] { s.x.size(2); },
       {"size: axis 2 is outside [-2, 2) for the shape [2, 3]"},
       right},
      {"a view beyond the storage",
       [&] { s.x.alias({7}, {1}); },
       {"alias: shape [7] with strides [1] at offset 0", "storage of 6 elements"},
       right},
      {"a tensor beyond its storage",
       [&] {
         Tensor(s.x.shared_storage(), {2, 3}, {3, 1}, 1, DType::float32);
       },
       {"Tensor: shape [2, 3] with strides [3, 1] at offset 1 reaches outside the storage of 6 elements"},
       right},
      {"a tensor of a wider dtype than its storage holds",
       [&] {
         Tensor(s.x.shared_storage(), {2, 3}, {3, 1}, 0, DType::float64);
       },
       {"Tensor: shape [2, 3]", "the storage of 3 elements"},
       right},
      {"a tensor that begins before its storage",
       [&] { Tensor(s.x.shared_storage(), {2}, {1}, -1, DType::float32); },
       {"Tensor: shape [2] with strides [1] at offset -1 reaches outside"},
       right},
      {"a flipped tensor that ends before its storage",
       [&] {
         Tensor(s.x.shared_storage(), {2, 3}, {-3, 1}, 2, DType::float32);
       },
       {"Tensor: shape [2, 3] with strides [-3, 1] at offset 2 reaches outside"},
       right},
      {"a tensor of more elements than can be counted",
       [&] {
         Tensor(s.x.shared_storage(), {int64_t{1} << 40, 1 << 30}, {0, 0}, 0, DType::float32);
       },
       {"a tensor of shape [1099511627776, 1073741824] has more elements than an int64 can count"},
       right},
      {"a tensor with a stride too few",
       [&] {
         Tensor(s.x.shared_storage(), {2, 3}, {1}, 0, DType::float32);
       },
       {"Tensor: shape [2, 3] and strides [1] have different lengths"},
       right},
      {"a tensor without a storage",
       [&] { Tensor(nullptr, {2}, {1}, 0, DType::float32); },
       {"Tensor: the storage is null"},
       right},
      {"an offset that overflows",
       [&] { s.x.alias({1}, {1}, 1).alias({1}, {1}, INT64_MAX); },
       {"alias: offset 1 + 9223372036854775807 overflows"},
       right},
      {"strides that overflow",
       [&] { s.x.alias({5}, {int64_t{1} << 62}); },
       {"alias: shape [5] with strides [4611686018427387904]", "storage of 6 elements"},
       right},
      {"an undefined tensor", [] { Tensor().shape(); }, {"an undefined tensor was used"}, right},
      {"a dtype that is not there",
       [] { dtype_of("float31"); },
       {"no dtype float31: wanted float32, float64"},
       right},
      {"no threads", [] { set_threads(0); }, {"set_threads: wanted 1 to 1024 threads, got 0"}, right},
      {"a parameter of integers",
       [&] { Parameter(arange(0, 2)); },
       {"Parameter: the master is int64[2]", "wanted float32"},
       right},
      {"a parameter turned into integers",
       [&] { s.p.to(DType::int32); },
       {"Parameter: wanted a floating dtype, got int32"},
       right},
      {"a parameter of another shape",
       [&] { s.p.assign(ones({3})); },
       {"wanted values of shape [2], got float32[3]"},
       [&] {
         s.p.assign(ones({2}));
         return s.p.master();
       }},
      {"an undefined parameter", [] { Parameter().value(); }, {"an undefined parameter was used"}, right},
  };
}

std::vector<Misuse> devices(Tensors& s) {
  const auto right = [&] { return s.x * 2; };
#if VITRINE_CUDA_KERNELS
  return {
      {"a sum of two devices",
       [&] { s.x + to(s.x, Device::cuda); },
       {"add: the tensors lie on different devices, cpu and cuda:0"},
       right},
      {"a write in place from another device",
       [&] { add_in_place(s.x, to(s.x, Device::cuda)); },
       {"add_in_place: the tensors lie on different devices, cpu and cuda:0"},
       right},
  };
#else
  return {
      {"a tensor on a GPU without CUDA",
       [] { zeros({2}, DType::float32, Device::cuda); },
       {"a tensor float32[2]", "cuda:0", "built without CUDA"},
       right},
      {"moving a tensor to a GPU without CUDA",
       [&] { to(s.x, Device::cuda); },
       {"cuda:0", "built without CUDA"},
       right},
      {"moving a parameter to a GPU without CUDA",
       [&] { s.p.to(Device::cuda); },
       {"cuda:0", "built without CUDA"},
       right},
  };
#endif
}

}  // namespace

TEST_CASE("misuse of creation") { check_all<Tensors>(creation); }
TEST_CASE("misuse of tensors and parameters") { check_all<Tensors>(handles); }
TEST_CASE("misuse of devices") { check_all<Tensors>(devices); }
