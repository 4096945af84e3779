// The updates of the optimizers (formulas: optim/kernels.h), all parameters of a group in one launch (cuda/pieces.h). Every number
// is read once and written once: that, and not arithmetic, is the time of a step.
#include "core/convert.h"
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
  const auto update = [&](T& x, T grad, T& m, T& v, T& largest) {
    const T g = limited(grad + T(s.coupled_decay) * x);
    m = T(s.beta1) * m + c1 * g;
    T square = v = T(s.beta2) * v + c2 * g * g;
    if (keeps_largest) square = largest = math::max(largest, square);
    T step = T(s.m_factor) * m + T(s.g_factor) * g;
    if (s.v_factor != 0) step = step / (math::sqrt(square * T(s.v_factor)) + in_denominator<T>(s.eps));
    x = keep * x - T(s.lr) * step;
  };
  update_elements(piece.size, update, pieces.master<T>(piece), pieces.at<const T>(2, piece),
                  pieces.at<T>(3, piece), pieces.at<T>(4, piece), largest_squares);
}

template <class T>
__global__ void sgd_kernel(Pieces<4> pieces, Live<SgdScalars> scalars) {
  const SgdScalars s = scalars.get();
  const Piece piece = this_piece(pieces);
  T* const buffers = pieces.at<T>(3, piece);
  const bool has_momentum = buffers != nullptr, first = pieces.number[piece.tensor] != 0;
  const auto update = [&](T& x, T grad, T& buffer) {
    T g = grad + T(s.decay) * x;
    if (has_momentum) {
      buffer = first ? g : T(s.momentum) * buffer + T(1 - s.dampening) * g;
      g = s.nesterov ? g + T(s.momentum) * buffer : buffer;
    }
    x -= T(s.lr) * g;
  };
  update_elements(piece.size, update, pieces.master<T>(piece), pieces.at<const T>(2, piece), buffers);
}

template <class T>
__global__ void lion_kernel(Pieces<4> pieces, Live<LionScalars> scalars) {
  const LionScalars s = scalars.get();
  const Piece piece = this_piece(pieces);
  const auto update = [&](T& x, T grad, T& m) {
    const T direction = math::sign(T(s.beta1) * m + T(1 - s.beta1) * grad);
    x -= T(s.lr) * (direction + T(s.decay) * x);
    m = T(s.beta2) * m + T(1 - s.beta2) * grad;
  };
  update_elements(piece.size, update, pieces.master<T>(piece), pieces.at<const T>(2, piece),
                  pieces.at<T>(3, piece));
}

template <class T>
__global__ void rmsprop_kernel(Pieces<6> pieces, Live<RmspropScalars> scalars) {
  const RmspropScalars s = scalars.get();
  const Piece piece = this_piece(pieces);
  T* const means = pieces.at<T>(4, piece);
  T* const buffers = pieces.at<T>(5, piece);
  const bool centered = means != nullptr, has_momentum = buffers != nullptr;
  const T b = T(s.beta2), c = T(1 - s.beta2);
  const auto update = [&](T& x, T grad, T& v, T& m, T& buffer) {
    const T g = limited(grad + T(s.decay) * x);
    T square = v = b * v + c * g * g;
    if (centered) {
      m = b * m + c * g;
      square = math::max(square - m * m, T(0));  // rounding can bring the variance below 0
    }
    T u = g / (math::sqrt(square) + in_denominator<T>(s.eps));
    if (has_momentum) u = buffer = T(s.momentum) * buffer + u;
    x -= T(s.lr) * u;
  };
  update_elements(piece.size, update, pieces.master<T>(piece), pieces.at<const T>(2, piece),
                  pieces.at<T>(3, piece), means, buffers);
}

template <class T>
__global__ void adagrad_kernel(Pieces<4> pieces, Live<AdagradScalars> scalars) {
  const AdagradScalars s = scalars.get();
  const Piece piece = this_piece(pieces);
  const auto update = [&](T& x, T grad, T& v) {
    const T g = limited(grad + T(s.decay) * x);
    v += g * g;
    x -= T(s.lr) * g / (math::sqrt(v) + in_denominator<T>(s.eps));
  };
  update_elements(piece.size, update, pieces.master<T>(piece), pieces.at<const T>(2, piece),
                  pieces.at<T>(3, piece));
}

template <class T>
__global__ void adadelta_kernel(Pieces<5> pieces, Live<AdadeltaScalars> scalars) {
  const AdadeltaScalars s = scalars.get();
  const Piece piece = this_piece(pieces);
  const T rho = T(s.rho), rest = T(1 - s.rho), eps = under_root<T>(s.eps);
  const auto update = [&](T& x, T grad, T& v, T& steps) {
    const T g = limited(grad + T(s.decay) * x);
    v = rho * v + rest * g * g;
    const T u = math::sqrt(steps + eps) / math::sqrt(v + eps) * g;
    steps = rho * steps + rest * u * u;
    x -= T(s.lr) * u;
  };
  update_elements(piece.size, update, pieces.master<T>(piece), pieces.at<const T>(2, piece),
                  pieces.at<T>(3, piece), pieces.at<T>(4, piece));
}

}  // namespace

void adam_step(List& x, List& copies, const List& g, List& m, List& v, List& largest, Live<AdamScalars> s) {
  for_each_table<6>("adam_step", {&x, &copies, &g, &m, &v, &largest}, {},
                    [&](auto type, const Pieces<6>& pieces, unsigned blocks, int64_t) {
                      using T = typename decltype(type)::type;
                      VITRINE_LAUNCH((adam_kernel<T>), blocks, kThreads, 0, pieces, s);
                    });
}

void sgd_step(List& x, List& copies, const List& g, List& buffer, const std::vector<bool>& first,
              Live<SgdScalars> s) {
  for_each_table<4>("sgd_step", {&x, &copies, &g, &buffer}, std::vector<double>(first.begin(), first.end()),
                    [&](auto type, const Pieces<4>& pieces, unsigned blocks, int64_t) {
                      using T = typename decltype(type)::type;
                      VITRINE_LAUNCH((sgd_kernel<T>), blocks, kThreads, 0, pieces, s);
                    });
}

void lion_step(List& x, List& copies, const List& g, List& m, Live<LionScalars> s) {
  for_each_table<4>("lion_step", {&x, &copies, &g, &m}, {},
                    [&](auto type, const Pieces<4>& pieces, unsigned blocks, int64_t) {
                      using T = typename decltype(type)::type;
                      VITRINE_LAUNCH((lion_kernel<T>), blocks, kThreads, 0, pieces, s);
                    });
}

void rmsprop_step(List& x, List& copies, const List& g, List& v, List& m, List& buffer,
                  Live<RmspropScalars> s) {
  for_each_table<6>("rmsprop_step", {&x, &copies, &g, &v, &m, &buffer}, {},
                    [&](auto type, const Pieces<6>& pieces, unsigned blocks, int64_t) {
                      using T = typename decltype(type)::type;
                      VITRINE_LAUNCH((rmsprop_kernel<T>), blocks, kThreads, 0, pieces, s);
                    });
}

void adagrad_step(List& x, List& copies, const List& g, List& v, Live<AdagradScalars> s) {
  for_each_table<4>("adagrad_step", {&x, &copies, &g, &v}, {},
                    [&](auto type, const Pieces<4>& pieces, unsigned blocks, int64_t) {
                      using T = typename decltype(type)::type;
                      VITRINE_LAUNCH((adagrad_kernel<T>), blocks, kThreads, 0, pieces, s);
                    });
}

void adadelta_step(List& x, List& copies, const List& g, List& v, List& steps, Live<AdadeltaScalars> s) {
  for_each_table<5>("adadelta_step", {&x, &copies, &g, &v, &steps}, {},
                    [&](auto type, const Pieces<5>& pieces, unsigned blocks, int64_t) {
                      using T = typename decltype(type)::type;
                      VITRINE_LAUNCH((adadelta_kernel<T>), blocks, kThreads, 0, pieces, s);
                    });
}

}  // namespace vitrine::optim::cuda
