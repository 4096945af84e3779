// One launch for many tensors. A model has hundreds of parameters, most of them small, and a launch
// takes microseconds. So an optimizer passes a table of all tensors as the kernel's argument, and
// each block looks up its piece of a tensor in this table.
#pragma once

#include <array>
#include <vector>

#include "core/convert.h"
#include "core/creation.h"
#include "core/halves.h"
#include "core/stochastic_rounding.h"
#include "cuda/block.h"
#include "cuda/vector.h"

namespace vitrine::cuda {

inline constexpr int64_t kPiece = 1 << 13;  // elements of a block; pieces are 16-byte aligned

/// The largest size of a kernel's parameters, in bytes.
#if VITRINE_CUDA_EMULATED || CUDART_VERSION < 12010
inline constexpr size_t kParameterBytes = 4096;
#else
inline constexpr size_t kParameterBytes = 32764;
#endif

/// Elements begin … begin + size − 1 of a tensor.
struct Piece {
  int tensor;
  int64_t begin, size;
};

/// Elements of a parameter; a const T is only read. store() also writes the partner.
template <class T>
struct Master {
  using Value = std::remove_const_t<T>;

  T* whole;  ///< null if the parameter is split
  bfloat16* high;
  uint16_t* low;
  float16* copy;

  template <int N>
  __device__ Vector<Value, N> load(int64_t i) const {
    if constexpr (std::is_same_v<Value, float>)
      if (high != nullptr)
        return map<N>([](bfloat16 high, uint16_t low) { return Halves(high, low).joined(); },
                      cuda::load<N>(high + i), cuda::load<N>(low + i));
    return cuda::load<N>(whole + i);
  }
  template <int N>
  __device__ void store(int64_t i, const Vector<T, N>& x) const {
    if constexpr (std::is_same_v<T, float>)
      if (high != nullptr) {
        cuda::store(high + i, map<N>([](T x) { return Halves(x).high; }, x));
        cuda::store(low + i, map<N>([](T x) { return Halves(x).low; }, x));
        return;
      }
    cuda::store(whole + i, x);
    if (copy != nullptr) cuda::store(copy + i, map<N>([](T x) { return convert<float16>(x); }, x));
  }
};

/// Elements of a gradient, which are multiplied by a factor when they are read. If the factor is 0
/// they are 0, even if they are not finite.
template <class T>
struct Gradient {
  const T* wide;           ///< null if the gradient is bfloat16
  const bfloat16* narrow;  ///< null if it is not
  T factor;

  template <int N>
  __device__ Vector<T, N> load(int64_t i) const {
    const auto scaled = [this](auto g) { return factor == T(0) ? T(0) : convert<T>(g) * factor; };
    if (narrow != nullptr) return map<N>(scaled, cuda::load<N>(narrow + i));
    return map<N>(scaled, cuda::load<N>(wide + i));
  }
  __device__ T operator[](int64_t i) const { return load<1>(i).at[0]; }
};

/// Elements of a state: an array, or bfloat16 with stochastic rounding. Without either, load()
/// gives 0 and store() does nothing.
template <class T>
struct State {
  T* wide = nullptr;
  bfloat16* narrow = nullptr;
  uint32_t first = 0, key = 0;  ///< the number of the first element, and the key of the rounding

  template <int N>
  __device__ Vector<T, N> load(int64_t i) const {
    if constexpr (std::is_same_v<T, float>)
      if (narrow != nullptr) return map<N>([](bfloat16 x) { return float{x}; }, cuda::load<N>(narrow + i));
    return wide != nullptr ? cuda::load<N>(wide + i) : Vector<T, N>{};
  }
  template <int N>
  __device__ void store(int64_t i, const Vector<T, N>& x) const {
    if constexpr (std::is_same_v<T, float>)
      if (narrow != nullptr) {
        Vector<bfloat16, N> y;
        const uint32_t at = first + static_cast<uint32_t>(i);
#pragma unroll
        for (int k = 0; k < N; ++k) y.at[k] = round_stochastically(x.at[k], random_bits16(at + k, key));
        return cuda::store(narrow + i, y);
      }
    if (wide != nullptr) cuda::store(wide + i, x);
  }
};

/// Like update_elements for arrays (cuda/vector.h), where f's second argument is from a gradient
/// and the others are from states.
template <class F, class T, class G, class... Y>
__device__ void update_elements(int64_t n, const F& f, const Master<T>& master, const Gradient<G>& g,
                                const State<Y>&... y) {
  for_each_vector(
      n,
      [&](int64_t i, auto lanes) {
        auto mine = master.template load<lanes>(i);
        const auto grad = g.template load<lanes>(i);
        const auto update = [&](auto... held) {
#pragma unroll
          for (int k = 0; k < lanes; ++k) f(mine.at[k], grad.at[k], held.at[k]...);
          (y.store(i, held), ...);
        };
        update(y.template load<lanes>(i)...);
        if constexpr (!std::is_const_v<T>) master.store(i, mine);
      },
      master.whole, master.high, master.low, master.copy, g.wide, g.narrow, y.wide..., y.narrow...);
}

/// Like update_elements for arrays (cuda/vector.h), where f's first argument is from a parameter.
template <class F, class T, class X, class... Y>
__device__ void update_elements(int64_t n, const F& f, const Master<T>& master, X* x, Y*... y) {
  for_each_vector(
      n,
      [&](int64_t i, auto lanes) {
        auto mine = master.template load<lanes>(i);
        const auto update = [&](auto... held) {
#pragma unroll
          for (int k = 0; k < lanes; ++k) f(mine.at[k], held.value.at[k]...);
          (held.write_back(), ...);
        };
        update(Held<X, lanes>(x, i), Held<Y, lanes>(y, i)...);
        if constexpr (!std::is_const_v<T>) master.store(i, mine);
      },
      x, y..., master.whole, master.high, master.low, master.copy);
}

/// The addresses of tensor i of each of N lists, and the pieces into which the tensors are cut.
template <int N, class Number = double>
struct Pieces {
  static constexpr int kMost = static_cast<int>((kParameterBytes - 512) / (8 * (N + 2) + sizeof(Number) + 1));

  int count = 0;                  // tensors in this table
  int64_t first[kMost + 1] = {};  // the first piece of tensor i; then the number of pieces
  int64_t size[kMost] = {};
  Number number[kMost] = {};      // numbers that differ from tensor to tensor
  void* data[N][kMost] = {};      // null if the list is empty or the tensor is undefined
  uint8_t bfloat16s[kMost] = {};  // bit k: tensor i of list k is bfloat16

  /// The tensor of this block.
  __device__ int tensor() const {
    // Tensor `low` begins at or before this block, tensor `high` after it
    int low = 0, high = count;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (first[middle] <= int64_t{blockIdx.x} ? low : high) = middle;
    }
    return low;
  }
  /// The address of a piece's elements in an array of list `list`.
  template <class T>
  __device__ T* at(int list, const Piece& piece) const {
    T* const begin = static_cast<T*>(data[list][piece.tensor]);
    return begin == nullptr ? begin : begin + piece.begin;
  }
  __device__ bool is_bfloat16(int list, const Piece& piece) const {
    return (bfloat16s[piece.tensor] >> list & 1) != 0;
  }
  /// A piece of a state in list `list`. The key is for the rounding of bfloat16 states.
  template <class T>
  __device__ State<T> state(int list, const Piece& piece, uint32_t key) const {
    if (is_bfloat16(list, piece))
      return {.narrow = at<bfloat16>(list, piece), .first = static_cast<uint32_t>(piece.begin), .key = key};
    return {.wide = at<T>(list, piece)};
  }
  /// A piece of a gradient in list `list`; a null factor counts as 1.
  template <class T>
  __device__ Gradient<T> gradient(int list, const Piece& piece, const double* factor) const {
    const T by = factor == nullptr ? T(1) : static_cast<T>(*factor);
    if (is_bfloat16(list, piece)) return {nullptr, at<const bfloat16>(list, piece), by};
    return {at<const T>(list, piece), nullptr, by};
  }
  /// A piece of a parameter in list 0, with its partner from list 1.
  template <class T>
  __device__ Master<T> master(const Piece& piece) const {
    if (is_bfloat16(0, piece)) return {nullptr, at<bfloat16>(0, piece), at<uint16_t>(1, piece), nullptr};
    return {at<T>(0, piece), nullptr, nullptr, at<float16>(1, piece)};
  }
};

/// The elements of this block.
template <int N>
__device__ Piece this_piece(const Pieces<N>& pieces) {
  const int i = pieces.tensor();
  const int64_t begin = (blockIdx.x - pieces.first[i]) * kPiece, left = pieces.size[i] - begin;
  return {i, begin, left < kPiece ? left : kPiece};
}

/// sums[i] = {Σ a, Σ b} over the pairs {a, b} that the blocks of the table's tensor i have written.
/// One block per tensor.
template <class Table>
__global__ void sum_pairs_kernel(double* sums, const double* pairs, Table table) {
  const int i = static_cast<int>(blockIdx.x);
  double a = 0, b = 0;
  for (int64_t k = table.first[i] + threadIdx.x; k < table.first[i + 1]; k += blockDim.x)
    a += pairs[2 * k], b += pairs[2 * k + 1];
  a = sum_block(a);
  b = sum_block(b);
  if (threadIdx.x == 0) sums[2 * i] = a, sums[2 * i + 1] = b;
}

/// The address of the factor of gradients; null if there is none.
inline const double* address_of(const Tensor& factor) {
  return factor.defined() ? factor.data<double>() : nullptr;
}

inline int64_t pieces_of(const Tensor& x) { return (x.numel() + kPiece - 1) / kPiece; }
/// The number of blocks for the tensor. If `Number` is a struct, this is its `tiles()`.
template <class Number>
int64_t blocks_of(const Tensor& x, const Number& number) {
  if constexpr (std::is_arithmetic_v<Number>) {
    return pieces_of(x);
  } else {
    return number.tiles();
  }
}

/// Calls launch(Type<T>{}, pieces, blocks, done) with tables of the tensors in lists[0] (float32,
/// float64, or the upper halves of float32) and of the tensors at the same positions in the other
/// lists. `done` is the number of blocks of the earlier tables. A table ends when it is full or T
/// changes.
template <int N, class Number = double, class F>
void for_each_table(const char* kernel, const std::array<const std::vector<Tensor>*, N>& lists,
                    const std::vector<Number>& numbers, F&& launch) {
  Pieces<N, Number> pieces;
  DType dtype = DType::float32;
  int64_t done = 0;
  const auto flush = [&] {
    const int64_t blocks = pieces.first[pieces.count];
    if (blocks > 0 && dtype == DType::float32)
      launch(Type<float>{}, pieces, static_cast<unsigned>(blocks), done);
    if (blocks > 0 && dtype == DType::float64)
      launch(Type<double>{}, pieces, static_cast<unsigned>(blocks), done);
    done += blocks;
    pieces = {};
  };
  for (size_t i = 0; i < lists[0]->size(); ++i) {
    const Tensor& x = (*lists[0])[i];
    const DType wide = accumulation_dtype(x.dtype());
    check(wide == DType::float32 || wide == DType::float64, "{}: wanted a floating dtype, got {}", kernel,
          describe(x));
    if (pieces.count == Pieces<N, Number>::kMost || wide != dtype) flush();
    dtype = wide;
    const auto n = static_cast<size_t>(pieces.count++);
    for (size_t k = 0; k < N; ++k)
      if (!lists[k]->empty() && (*lists[k])[i].defined()) {
        const Tensor& tensor = (*lists[k])[i];
        pieces.data[k][n] = tensor.raw();
        if (tensor.dtype() == DType::bfloat16) pieces.bfloat16s[n] |= static_cast<uint8_t>(1u << k);
      }
    pieces.size[n] = x.numel();
    if (!numbers.empty()) pieces.number[n] = numbers[i];
    pieces.first[n + 1] = pieces.first[n] + blocks_of(x, pieces.number[n]);
  }
  flush();
}

}  // namespace vitrine::cuda
