// Element types of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "core/error.h"
#include "core/float16.h"
#include "core/gradcheck/dual.h"

namespace vitrine {

/// The element types. `boolean` is one byte, 0 or 1. `uint8` is one byte, 0 to 255, as in images.
/// `dual64` is a pair of doubles (value, tangent) for exact derivatives (core/gradcheck/dual.h);
/// only the plain CPU kernels support it.
enum class DType : uint8_t { float32, float64, bfloat16, float16, int64, int32, uint8, boolean, dual64 };

std::string_view name(DType dtype);  ///< in the form that dtype_of() accepts
/// The dtype with this name; an unknown name is an error that lists the known ones.
DType dtype_of(std::string_view name);
size_t size_of(DType dtype);  ///< bytes per element

constexpr bool is_floating(DType t) {
  return t == DType::float32 || t == DType::float64 || t == DType::bfloat16 || t == DType::float16 ||
         t == DType::dual64;
}
constexpr bool is_integer(DType t) { return t == DType::int64 || t == DType::int32 || t == DType::uint8; }
constexpr bool is_low_precision(DType t) { return t == DType::bfloat16 || t == DType::float16; }

/// The dtype in which sums and statistics over dtype `t` are computed: float32 for bfloat16 and
/// float16, else `t`.
constexpr DType accumulation_dtype(DType t) { return is_low_precision(t) ? DType::float32 : t; }

/// The result dtype of an operation on dtypes `x` and `y`. This follows NumPy with two exceptions:
/// an integer with a float gives the float's dtype, and bfloat16 with float16 gives float32.
DType promote(DType x, DType y);

/// Checks that `dtype` can hold `value`: an integer dtype accepts only whole numbers in its range.
/// Any other number is an error that names `op`.
void check_number(std::string_view op, double value, DType dtype);

/// The distance from 1 to the next larger number of this dtype; 0 for integers and booleans.
double epsilon(DType dtype);

/// The dtype of a C++ type. Types that are not element types give boolean.
template <class T>
inline constexpr DType dtype_v = DType::boolean;
template <>
inline constexpr DType dtype_v<float> = DType::float32;
template <>
inline constexpr DType dtype_v<double> = DType::float64;
template <>
inline constexpr DType dtype_v<bfloat16> = DType::bfloat16;
template <>
inline constexpr DType dtype_v<float16> = DType::float16;
template <>
inline constexpr DType dtype_v<int64_t> = DType::int64;
template <>
inline constexpr DType dtype_v<int32_t> = DType::int32;
template <>
inline constexpr DType dtype_v<uint8_t> = DType::uint8;
template <>
inline constexpr DType dtype_v<bool> = DType::boolean;
template <>
inline constexpr DType dtype_v<Dual> = DType::dual64;

/// The type in which a kernel computes on elements of type T: float for the 16-bit types, else T.
template <class T>
using AccumulatorOf = std::conditional_t<std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>, float, T>;

/// A C++ type as a value. The visitors below pass it to their function.
template <class T>
struct Type {
  using type = T;
};

/// Calls f(Type<T>{}) with the C++ type of a floating `dtype`. Another dtype is an error that names
/// `op`.
template <class F>
decltype(auto) visit_floating(DType dtype, std::string_view op, F&& f) {
  switch (dtype) {
    case DType::float32: return f(Type<float>{});
    case DType::float64: return f(Type<double>{});
    case DType::bfloat16: return f(Type<bfloat16>{});
    case DType::float16: return f(Type<float16>{});
    case DType::dual64: return f(Type<Dual>{});
    default: fail("{}: wanted a floating dtype, got {}", op, name(dtype));
  }
}

/// The same for int64 and int32, the two types in which kernels compute with integers and indices.
/// Elementwise operations convert uint8 to int32 and convert the result back. The numbers are the
/// same, as integers wrap around.
template <class F>
decltype(auto) visit_index(DType dtype, std::string_view op, F&& f) {
  switch (dtype) {
    case DType::int64: return f(Type<int64_t>{});
    case DType::int32: return f(Type<int32_t>{});
    default: fail("{}: wanted indices of int64 or int32, got {}", op, name(dtype));
  }
}

/// The same for every dtype except uint8. It is for kernels of two dtypes, which convert uint8 by
/// way of int32.
template <class F>
decltype(auto) visit_but_uint8(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32: return f(Type<float>{});
    case DType::float64: return f(Type<double>{});
    case DType::bfloat16: return f(Type<bfloat16>{});
    case DType::float16: return f(Type<float16>{});
    case DType::int64: return f(Type<int64_t>{});
    case DType::int32: return f(Type<int32_t>{});
    case DType::boolean: return f(Type<bool>{});
    case DType::dual64: return f(Type<Dual>{});
    default: fail("a kernel does not know the dtype {}", name(dtype));
  }
}

/// The same for every dtype.
template <class F>
decltype(auto) visit_all(DType dtype, F&& f) {
  if (dtype == DType::uint8) return f(Type<uint8_t>{});
  return visit_but_uint8(dtype, f);
}

}  // namespace vitrine
