// Shapes and strides: short lists of sizes, stored inline so that a tensor handle needs no extra
// allocation.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"

namespace vitrine {

/// Up to 8 integers: the sizes of a tensor, or its strides counted in elements.
class Dims {
 public:
  static constexpr int kMax = 8;

  Dims() = default;
  Dims(std::initializer_list<int64_t> values) : Dims(std::span(values.begin(), values.size())) {}
  Dims(const std::vector<int64_t>& values) : Dims(std::span(values)) {}
  explicit Dims(std::span<const int64_t> values);  ///< more than kMax values are an error
  /// `rank` copies of `value`.
  static Dims filled(int rank, int64_t value);

  int rank() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  int64_t operator[](int i) const { return values_[static_cast<size_t>(i)]; }
  int64_t& operator[](int i) { return values_[static_cast<size_t>(i)]; }
  int64_t back() const { return values_[static_cast<size_t>(rank_ - 1)]; }
  int64_t& back() { return values_[static_cast<size_t>(rank_ - 1)]; }
  const int64_t* begin() const { return values_.data(); }
  const int64_t* end() const { return values_.data() + rank_; }
  int64_t* begin() { return values_.data(); }
  int64_t* end() { return values_.data() + rank_; }

  void push_back(int64_t value);
  void insert(int at, int64_t value);  ///< before position `at`, 0 ≤ at ≤ rank
  void erase(int at);

  bool operator==(const Dims& other) const;

 private:
  std::array<int64_t, kMax> values_{};
  int rank_ = 0;
};

using Shape = Dims;
using Strides = Dims;

/// The number of elements: the product of the sizes, 1 for rank 0. Overflow of int64 is an error.
int64_t numel(const Shape& shape);

/// Row-major strides: the last axis has stride 1.
Strides contiguous_strides(const Shape& shape);

/// "[2, 3]"; "[]" for a scalar.
std::string to_string(const Dims& dims);

/// NumPy's broadcasting rule: axes are aligned at the right, and sizes must be equal or 1. `op`
/// names the caller in the error.
Shape broadcast(std::string_view op, const Shape& x, const Shape& y);

/// Returns `axis` in [-rank, rank) as a non-negative axis; outside that range, an error that names
/// `op`.
int check_axis(std::string_view op, const Shape& shape, int64_t axis);

/// The axes made non-negative and sorted; a repeated axis is an error. An empty list means all
/// axes.
std::vector<int> check_axes(std::string_view op, const Shape& shape, std::span<const int64_t> axes);

}  // namespace vitrine

template <>
struct fmt::formatter<vitrine::Dims> : fmt::formatter<std::string> {
  template <class Context>
  auto format(const vitrine::Dims& dims, Context& context) const {
    return fmt::formatter<std::string>::format(vitrine::to_string(dims), context);
  }
};
