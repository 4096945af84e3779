// The norm of all gradients together, and scaling them: a pass over all tensors in one launch
// (cuda/pieces.h).
#include "core/math.h"
#include "cuda/pieces.h"
#include "cuda/runtime/device_error.h"
#include "cuda/strided.h"
#include "ops/kernels.h"
#include "optim/kernels.h"

namespace vitrine::optim::cuda {

using namespace vitrine::cuda;

namespace {

/// Each block writes the sum of its piece. Adding to one number would use another order in every
/// run.
template <class T>
__global__ void sum_of_squares_kernel(double* squares, Pieces<1> pieces) {
  const Piece piece = this_piece(pieces);
  double mine = 0;
  const auto add = [&](auto x) {
    const double wide = convert<T>(x);
    mine += wide * wide;
  };
  if (pieces.is_bfloat16(0, piece))
    for_each_element(piece.size, add, pieces.at<const bfloat16>(0, piece));
  else
    for_each_element(piece.size, add, pieces.at<const T>(0, piece));
  mine = sum_block(mine);
  if (threadIdx.x == 0) squares[blockIdx.x] = mine;
}

/// The factor: a number, or the factor that reduces a norm to this number.
struct Factor {
  double number;
  const double* norm = nullptr;
  HostText op = {};
  DeviceError* error = nullptr;

  /// 1 if there is nothing to do; 0 for a norm that is not finite, which one thread reports.
  __device__ double get() const {
    if (norm == nullptr) return number;
    const double factor = number / (*norm + 1e-6);
    if (math::is_finite(*norm)) return factor < 1 ? factor : 1;
    if (first_index() == 0) leave(error, {.kind = DeviceError::Kind::norm, .op = op, .number = *norm});
    return 0;
  }
  /// x times the factor. If the norm is not finite, 0, even if x is not finite.
  template <class T>
  __device__ T scaled(T x, T factor) const {
    return norm != nullptr && factor == T(0) ? T(0) : x * factor;
  }
};

template <class T>
__global__ void scale_kernel(Pieces<1> pieces, Factor by) {
  const Piece piece = this_piece(pieces);
  T* const x = pieces.at<T>(0, piece);
  const T factor = static_cast<T>(by.get());
  if (factor == T(1)) return;
  map_elements(
      piece.size, [&](T x) { return by.scaled(x, factor); }, x, x);
}

template <class S>
__global__ void scale_strided_kernel(S* x, Strided<2> layout, Factor by) {
  const auto factor = static_cast<AccumulatorOf<S>>(by.get());
  if (factor == AccumulatorOf<S>(1)) return;
  map_all(
      layout, [&](S x) { return S(by.scaled(static_cast<AccumulatorOf<S>>(x), factor)); }, x, x);
}

}  // namespace

void sum_of_squares(Tensor& total, const List& xs) {
  int64_t count = 0;
  for (const Tensor& x : xs) count += pieces_of(x);
  Tensor squares = empty({1, count, 1}, DType::float64, total.device());
  for_each_table<1>("sum_of_squares", {&xs}, {},
                    [&](auto type, const Pieces<1>& pieces, unsigned blocks, int64_t done) {
                      using T = typename decltype(type)::type;
                      VITRINE_LAUNCH((sum_of_squares_kernel<T>), blocks, kThreads, 0,
                                     squares.data<double>() + done, pieces);
                    });
  Tensor row = total.alias({1, 1}, {1, 1});
  vitrine::cuda::sum(row, squares);
}

namespace {

void scale(const List& xs, const Factor& factor) {
  List together;
  for (const Tensor& x : xs) {
    if (x.is_contiguous() && !is_low_precision(x.dtype())) {
      together.push_back(x);
    } else if (x.numel() > 0) {
      visit_device_floating(x.dtype(), "scale_all", [&](auto type) {
        using S = typename decltype(type)::type;
        const auto layout = Strided<2>::of(x, x);
        VITRINE_LAUNCH((scale_strided_kernel<S>), layout.blocks(), kThreads, 0, x.data<S>(), layout, factor);
      });
    }
  }
  for_each_table<1>("scale_all", {&together}, {},
                    [&](auto type, const Pieces<1>& pieces, unsigned blocks, int64_t) {
                      using T = typename decltype(type)::type;
                      VITRINE_LAUNCH((scale_kernel<T>), blocks, kThreads, 0, pieces, factor);
                    });
}

}  // namespace

namespace {

__global__ void clip_factor_kernel(double* result, Factor factor) {
  if (first_index() == 0) *result = factor.get();
}

}  // namespace

void clip_factor(Tensor& factor, const Tensor& norm, double max_norm) {
  VITRINE_LAUNCH(clip_factor_kernel, 1, 1, 0, factor.data<double>(),
                 Factor{max_norm, norm.data<double>(), "clip_gradients", device_error()});
}

void scale_all(List& xs, double factor) { scale(xs, {factor}); }

void clip_all(List& xs, const Tensor& norm, double max_norm) {
  scale(xs, {max_norm, norm.data<double>(), "clip_gradients", device_error()});
}

}  // namespace vitrine::optim::cuda
