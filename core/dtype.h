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

/// `boolean` is one byte, 0 or 1; `uint8` is one byte, 0 to 255, as images have. `dual64` is a pair
/// of doubles (value, tangent), for exact derivatives (core/gradcheck/dual.h); only the plain CPU
/// kernels know it.
enum class DType : uint8_t { float32, float64, bfloat16, float16, int64, int32, uint8, boolean, dual64 };

std::string_view name(DType dtype);  ///< as dtype_of() takes it
/// The DType of that name; an unknown name is an error that lists the known ones.
DType dtype_of(std::string_view name);
size_t size_of(DType dtype);  ///< bytes of an element

constexpr bool is_floating(DType t) {
  return t == DType::float32 || t == DType::float64 || t == DType::bfloat16 || t == DType::float16 ||
         t == DType::dual64;
}
constexpr bool is_integer(DType t) { return t == DType::int64 || t == DType::int32 || t == DType::uint8; }
constexpr bool is_low_precision(DType t) { return t == DType::bfloat16 || t == DType::float16; }

/// The type in which sums and statistics over `t` are kept: float32 for bfloat16 and float16, else
/// `t`.
constexpr DType accumulation_dtype(DType t) { return is_low_precision(t) ? DType::float32 : t; }

/// The type of an operation on `x` and `y`. As NumPy's, but an integer with a float keeps the
/// float's type, and bfloat16 with float16 gives float32.
DType promote(DType x, DType y);

/// An integer dtype takes whole numbers of its range only; another number is an error that names
/// `op`.
void check_number(std::string_view op, double value, DType dtype);

/// The distance from 1 to the next larger number; 0 for integers and booleans.
double epsilon(DType dtype);

/// The DType of a C++ type; boolean for types that are none.
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

/// A C++ type as a value: what the visitors below call their function with.
template <class T>
struct Type {
  using type = T;
};

/// Calls f(Type<T>{}) with the C++ type of a floating `dtype`; others are an error that names `op`.
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

/// The same for the two types in which kernels compute with integers, indices among them. uint8 is
/// converted to int32 and the result back, which gives the same numbers, as integers wrap around.
template <class F>
decltype(auto) visit_index(DType dtype, std::string_view op, F&& f) {
  switch (dtype) {
    case DType::int64: return f(Type<int64_t>{});
    case DType::int32: return f(Type<int32_t>{});
    default: fail("{}: wanted indices of int64 or int32, got {}", op, name(dtype));
  }
}

/// The same for every dtype but uint8: for kernels of two dtypes, which take it by way of int32.
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
