// The updates of the optimizers (formulas: optim/kernels.h), all parameters of a group in one launch (cuda/pieces.h). Every number
// is read once and written once: that, and not arithmetic, is the time of a step.
#include "core/math.h"
#include "cuda/pieces.h"
#include "optim/kernels.h"

namespace vitrine::optim::cuda {

using namespace vitrine::cuda;

namespace {

template <class T>
__global__ void adam_kernel(Pieces<6> pieces, AdamScalars s) {
  const Piece piece = this_piece(pieces);
  T* const x = pieces.at<T>(0, piece.tensor);
  auto* const copies = pieces.at<bfloat16>(1, piece.tensor);
  const T* const grad = pieces.at<const T>(2, piece.tensor);
  T *const m = pieces.at<T>(3, piece.tensor), *const v = pieces.at<T>(4, piece.tensor);
  T* const largest = pieces.at<T>(5, piece.tensor);
  const T keep = T(1 - s.lr * s.decoupled_decay), c1 = T(1 - s.beta1), c2 = T(1 - s.beta2);
  for_each_element(piece, [&](int64_t i) {
    const T g = grad[i] + T(s.coupled_decay) * x[i];
    m[i] = T(s.beta1) * m[i] + c1 * g;
    T square = v[i] = T(s.beta2) * v[i] + c2 * g * g;
    if (largest != nullptr) square = largest[i] = math::max(largest[i], square);
    T step = T(s.m_factor) * m[i] + T(s.g_factor) * g;
    if (s.v_factor != 0) step = step / (math::sqrt(square * T(s.v_factor)) + T(s.eps));
    const T updated = keep * x[i] - T(s.lr) * step;
    x[i] = updated;
    if (copies != nullptr) copies[i] = bfloat16(static_cast<float>(updated));
  });
}

/// u of LAMB.
template <class T>
__device__ T lamb_direction(T x, T m, T v, const AdamScalars& s) {
  return T(s.m_factor) * m / (math::sqrt(v * T(s.v_factor)) + T(s.eps)) + T(s.decoupled_decay) * x;
}

/// Σ x² and Σ u² of each piece go to squares.
template <class T>
__global__ void lamb_moments_kernel(double* squares, Pieces<4> pieces, AdamScalars s) {
  const Piece piece = this_piece(pieces);
  const T *const x = pieces.at<const T>(0, piece.tensor), *const grad = pieces.at<const T>(1, piece.tensor);
  T *const m = pieces.at<T>(2, piece.tensor), *const v = pieces.at<T>(3, piece.tensor);
  double of_x = 0, of_u = 0;
  for_each_element(piece, [&](int64_t i) {
    m[i] = T(s.beta1) * m[i] + T(1 - s.beta1) * grad[i];
    v[i] = T(s.beta2) * v[i] + T(1 - s.beta2) * grad[i] * grad[i];
    const T u = lamb_direction(x[i], m[i], v[i], s);
    of_x += double{x[i]} * double{x[i]};
    of_u += double{u} * double{u};
  });
  of_x = sum_block(of_x);
  of_u = sum_block(of_u);
  if (threadIdx.x == 0) squares[2 * blockIdx.x] = of_x, squares[2 * blockIdx.x + 1] = of_u;
}

/// norms[i] = the root of the sum of row i of the squares [pieces, 2], from piece begins[i] to begins[i + 1]: one block a tensor.
__global__ void lamb_norms_kernel(double* norms, const double* squares, const int64_t* begins) {
  double of_x = 0, of_u = 0;
  for (int64_t i = begins[blockIdx.x] + threadIdx.x; i < begins[blockIdx.x + 1]; i += blockDim.x)
    of_x += squares[2 * i], of_u += squares[2 * i + 1];
  of_x = sum_block(of_x);
  of_u = sum_block(of_u);
  if (threadIdx.x == 0)
    norms[2 * blockIdx.x] = math::sqrt(of_x), norms[2 * blockIdx.x + 1] = math::sqrt(of_u);
}

template <class T>
__global__ void lamb_kernel(Pieces<3> pieces, AdamScalars s) {
  const Piece piece = this_piece(pieces);
  T* const x = pieces.at<T>(0, piece.tensor);
  const T *const m = pieces.at<const T>(1, piece.tensor), *const v = pieces.at<const T>(2, piece.tensor);
  const T rate = T(pieces.number[piece.tensor]);
  for_each_element(piece, [&](int64_t i) { x[i] -= rate * lamb_direction(x[i], m[i], v[i], s); });
}

template <class T>
__global__ void sgd_kernel(Pieces<3> pieces, SgdScalars s) {
  const Piece piece = this_piece(pieces);
  T* const x = pieces.at<T>(0, piece.tensor);
  const T* const grad = pieces.at<const T>(1, piece.tensor);
  T* const buffer = pieces.at<T>(2, piece.tensor);
  const bool first = pieces.number[piece.tensor] != 0;
  for_each_element(piece, [&](int64_t i) {
    T g = grad[i] + T(s.decay) * x[i];
    if (buffer != nullptr) {
      const T b = buffer[i] = first ? g : T(s.momentum) * buffer[i] + T(1 - s.dampening) * g;
      g = s.nesterov ? g + T(s.momentum) * b : b;
    }
    x[i] -= T(s.lr) * g;
  });
}

template <class T>
__global__ void lion_kernel(Pieces<3> pieces, LionScalars s) {
  const Piece piece = this_piece(pieces);
  T* const x = pieces.at<T>(0, piece.tensor);
  const T* const grad = pieces.at<const T>(1, piece.tensor);
  T* const m = pieces.at<T>(2, piece.tensor);
  for_each_element(piece, [&](int64_t i) {
    const T direction = math::sign(T(s.beta1) * m[i] + T(1 - s.beta1) * grad[i]);
    x[i] -= T(s.lr) * (direction + T(s.decay) * x[i]);
    m[i] = T(s.beta2) * m[i] + T(1 - s.beta2) * grad[i];
  });
}

}  // namespace

void adam_step(List& x, List& copies, const List& g, List& m, List& v, List& largest, AdamScalars s) {
  for_each_table<6>("adam_step", {&x, &copies, &g, &m, &v, &largest}, {},
                    [&](auto type, const Pieces<6>& pieces, unsigned blocks, int64_t) {
                      using T = typename decltype(type)::type;
                      VITRINE_LAUNCH((adam_kernel<T>), blocks, kThreads, 0, pieces, s);
                    });
}

void lamb_moments(Tensor& norms, const List& x, const List& g, List& m, List& v, AdamScalars s) {
  std::vector<int64_t> begins = {0};
  for (const Tensor& t : x) begins.push_back(begins.back() + pieces_of(t));
  Tensor squares = empty({begins.back(), 2}, DType::float64, norms.device());
  for_each_table<4>("lamb_moments", {&x, &g, &m, &v}, {},
                    [&](auto type, const Pieces<4>& pieces, unsigned blocks, int64_t done) {
                      using T = typename decltype(type)::type;
                      VITRINE_LAUNCH((lamb_moments_kernel<T>), blocks, kThreads, 0,
                                     squares.data<double>() + 2 * done, pieces, s);
                    });
  const Tensor on_device = index_tensor(begins, {static_cast<int64_t>(begins.size())}, norms.device());
  VITRINE_LAUNCH(lamb_norms_kernel, static_cast<unsigned>(x.size()), kThreads, 0, norms.data<double>(),
                 squares.data<double>(), on_device.data<int64_t>());
}

void lamb_step(List& x, const List& m, const List& v, const std::vector<double>& rates, AdamScalars s) {
  for_each_table<3>("lamb_step", {&x, &m, &v}, rates,
                    [&](auto type, const Pieces<3>& pieces, unsigned blocks, int64_t) {
                      using T = typename decltype(type)::type;
                      VITRINE_LAUNCH((lamb_kernel<T>), blocks, kThreads, 0, pieces, s);
                    });
}

void sgd_step(List& x, const List& g, List& buffer, const std::vector<bool>& first, SgdScalars s) {
  for_each_table<3>("sgd_step", {&x, &g, &buffer}, std::vector<double>(first.begin(), first.end()),
                    [&](auto type, const Pieces<3>& pieces, unsigned blocks, int64_t) {
                      using T = typename decltype(type)::type;
                      VITRINE_LAUNCH((sgd_kernel<T>), blocks, kThreads, 0, pieces, s);
                    });
}

void lion_step(List& x, const List& g, List& m, LionScalars s) {
  for_each_table<3>("lion_step", {&x, &g, &m}, {},
                    [&](auto type, const Pieces<3>& pieces, unsigned blocks, int64_t) {
                      using T = typename decltype(type)::type;
                      VITRINE_LAUNCH((lion_kernel<T>), blocks, kThreads, 0, pieces, s);
                    });
}

}  // namespace vitrine::optim::cuda
