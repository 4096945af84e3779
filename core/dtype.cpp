#include "core/dtype.h"

#include <array>
#include <cmath>

namespace vitrine {
namespace {

struct Entry {
  std::string_view name;
  size_t size;
  double epsilon;
};

constexpr std::array<Entry, 9> kTypes = {{{"float32", 4, 0x1p-23},
                                          {"float64", 8, 0x1p-52},
                                          {"bfloat16", 2, 0x1p-7},
                                          {"float16", 2, 0x1p-10},
                                          {"int64", 8, 0},
                                          {"int32", 4, 0},
                                          {"uint8", 1, 0},
                                          {"bool", 1, 0},
                                          {"dual64", 16, 0x1p-52}}};

const Entry& entry(DType dtype) { return kTypes.at(static_cast<size_t>(dtype)); }

/// bool < uint8 < int32 < int64 < 16-bit floats < float32 < float64 < dual64
int rank(DType t) {
  constexpr std::array<int, 9> kRanks = {5, 6, 4, 4, 3, 2, 1, 0, 7};
  return kRanks.at(static_cast<size_t>(t));
}

}  // namespace

std::string_view name(DType dtype) { return entry(dtype).name; }
size_t size_of(DType dtype) { return entry(dtype).size; }
double epsilon(DType dtype) { return entry(dtype).epsilon; }

DType dtype_of(std::string_view name) {
  for (size_t i = 0; i < kTypes.size(); ++i)
    if (kTypes[i].name == name) return static_cast<DType>(i);
  fail(
      "there is no dtype {}: wanted float32, float64, bfloat16, float16, int64, int32, uint8, bool or dual64",
      name);
}

void check_number(std::string_view op, double value, DType dtype) {
  if (!is_integer(dtype)) return;
  const double beyond = dtype == DType::uint8 ? 0x1p8 : dtype == DType::int32 ? 0x1p31 : 0x1p63;
  const double least = dtype == DType::uint8 ? 0 : -beyond;
  check(value == std::floor(value),
        "{}: the number {} is not whole, but the tensor is {}; wanted a floating one", op, value,
        name(dtype));
  check(value >= least && value < beyond, "{}: the number {} is outside the range of {}", op, value,
        name(dtype));
}

DType promote(DType x, DType y) {
  if (x == y) return x;
  if (rank(x) == rank(y)) return DType::float32;  // bfloat16 with float16
  return rank(x) > rank(y) ? x : y;
}

}  // namespace vitrine
