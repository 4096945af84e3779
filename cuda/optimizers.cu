// The updates of the optimizers (formulas: optim/kernels.h), all parameters of a group in one launch (cuda/pieces.h). Every number
// is read once and written once: that, and not arithmetic, is the time of a step.
#include "core/math.h"
#include "cuda/pieces.h"
#include "optim/kernels.h"

namespace vitrine::optim::cuda {

using namespace vitrine::cuda;

namespace {

template <class T>
__global__ void adam_kernel(Pieces<6> pieces, Live<AdamScalars> scalars) {
  const AdamScalars s = scalars.get();
  const Piece piece = this_piece(pieces);
  T* const largest_squares = pieces.at<T>(5, piece);
  const bool keeps_largest = largest_squares != nullptr;
  const T keep = T(1 - s.lr * s.decoupled_decay), c1 = T(1 - s.beta1), c2 = T(1 - s.beta2);
  const auto update = [&](T& x, bfloat16& copy, T grad, T& m, T& v, T& largest) {
    const T g = grad + T(s.coupled_decay) * x;
    m = T(s.beta1) * m + c1 * g;
    T square = v = T(s.beta2) * v + c2 * g * g;
    if (keeps_largest) square = largest = math::max(largest, square);
    T step = T(s.m_factor) * m + T(s.g_factor) * g;
    if (s.v_factor != 0) step = step / (math::sqrt(square * T(s.v_factor)) + T(s.eps));
    x = keep * x - T(s.lr) * step;
    copy = bfloat16(static_cast<float>(x));
  };
  update_elements(piece.size, update, pieces.at<T>(0, piece), pieces.at<bfloat16>(1, piece),
                  pieces.at<const T>(2, piece), pieces.at<T>(3, piece), pieces.at<T>(4, piece),
                  largest_squares);
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
  double of_x = 0, of_u = 0;
  const auto update = [&](T x, T grad, T& m, T& v) {
    m = T(s.beta1) * m + T(1 - s.beta1) * grad;
    v = T(s.beta2) * v + T(1 - s.beta2) * grad * grad;
    const T u = lamb_direction(x, m, v, s);
    of_x += double{x} * double{x};
    of_u += double{u} * double{u};
  };
  update_elements(piece.size, update, pieces.at<const T>(0, piece), pieces.at<const T>(1, piece),
                  pieces.at<T>(2, piece), pieces.at<T>(3, piece));
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
  const T rate = T(pieces.number[piece.tensor]);
  const auto update = [&](T& x, T m, T v) { x -= rate * lamb_direction(x, m, v, s); };
  update_elements(piece.size, update, pieces.at<T>(0, piece), pieces.at<const T>(1, piece),
                  pieces.at<const T>(2, piece));
}

template <class T>
__global__ void sgd_kernel(Pieces<3> pieces, Live<SgdScalars> scalars) {
  const SgdScalars s = scalars.get();
  const Piece piece = this_piece(pieces);
  T* const buffers = pieces.at<T>(2, piece);
  const bool has_momentum = buffers != nullptr, first = pieces.number[piece.tensor] != 0;
  const auto update = [&](T& x, T grad, T& buffer) {
    T g = grad + T(s.decay) * x;
    if (has_momentum) {
      buffer = first ? g : T(s.momentum) * buffer + T(1 - s.dampening) * g;
      g = s.nesterov ? g + T(s.momentum) * buffer : buffer;
    }
    x -= T(s.lr) * g;
  };
  update_elements(piece.size, update, pieces.at<T>(0, piece), pieces.at<const T>(1, piece), buffers);
}

template <class T>
__global__ void lion_kernel(Pieces<3> pieces, Live<LionScalars> scalars) {
  const LionScalars s = scalars.get();
  const Piece piece = this_piece(pieces);
  const auto update = [&](T& x, T grad, T& m) {
    const T direction = math::sign(T(s.beta1) * m + T(1 - s.beta1) * grad);
    x -= T(s.lr) * (direction + T(s.decay) * x);
    m = T(s.beta2) * m + T(1 - s.beta2) * grad;
  };
  update_elements(piece.size, update, pieces.at<T>(0, piece), pieces.at<const T>(1, piece),
                  pieces.at<T>(2, piece));
}

}  // namespace

void adam_step(List& x, List& copies, const List& g, List& m, List& v, List& largest, Live<AdamScalars> s) {
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

void sgd_step(List& x, const List& g, List& buffer, const std::vector<bool>& first, Live<SgdScalars> s) {
  for_each_table<3>("sgd_step", {&x, &g, &buffer}, std::vector<double>(first.begin(), first.end()),
                    [&](auto type, const Pieces<3>& pieces, unsigned blocks, int64_t) {
                      using T = typename decltype(type)::type;
                      VITRINE_LAUNCH((sgd_kernel<T>), blocks, kThreads, 0, pieces, s);
                    });
}

void lion_step(List& x, const List& g, List& m, Live<LionScalars> s) {
  for_each_table<3>("lion_step", {&x, &g, &m}, {},
                    [&](auto type, const Pieces<3>& pieces, unsigned blocks, int64_t) {
                      using T = typename decltype(type)::type;
                      VITRINE_LAUNCH((lion_kernel<T>), blocks, kThreads, 0, pieces, s);
                    });
}

}  // namespace vitrine::optim::cuda
