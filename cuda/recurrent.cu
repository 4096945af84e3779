// One position of recurrent cells, from the same formulas as on the CPU: a thread owns a channel of
// a sequence. Neighbouring threads read neighbouring channels, of every gate.
#include "cuda/launch.h"
#include "cuda/strided.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

/// A matrix with contiguous rows; undefined: data is null.
template <class S>
struct Matrix {
  S* data = nullptr;
  int64_t stride = 0;

  explicit Matrix(const Tensor& x) {
    if (x.defined()) data = x.data<S>(), stride = x.strides()[0];
  }
  __device__ S& at(int64_t b, int64_t column) const { return data[b * stride + column]; }
};

/// The channel and the sequence that a thread owns, and their numbers.
struct Sequences {
  const int64_t* lengths;
  int64_t t, channels, count;

  Sequences(const Tensor& states, const Tensor& lengths, int64_t t)
      : lengths(lengths.defined() ? lengths.data<int64_t>() : nullptr),
        t(t),
        channels(states.size(1)),
        count(states.numel()) {}
  __device__ bool active(int64_t b) const { return lengths == nullptr || t < lengths[b]; }
};

template <class S, class T>
__global__ void lstm_kernel(Matrix<S> h, Matrix<T> c, Matrix<T> gates, Matrix<S> x, Matrix<T> product,
                            Matrix<S> h_before, Matrix<T> c_before, Sequences all) {
  const int64_t n = all.channels;
  for (int64_t i = first_index(); i < all.count; i += grid_stride()) {
    const int64_t b = i / n, j = i - b * n;
    if (!all.active(b)) {
      h.at(b, j) = h_before.at(b, j), c.at(b, j) = c_before.at(b, j);
      continue;
    }
    const auto sum = [&](int64_t gate) {
      return static_cast<T>(x.at(b, gate * n + j)) + product.at(b, gate * n + j);
    };
    const auto s = formula::LstmStep<T>::of(sum(0), sum(1), sum(2), sum(3), c_before.at(b, j));
    gates.at(b, j) = s.input, gates.at(b, n + j) = s.forget;
    gates.at(b, 2 * n + j) = s.candidate, gates.at(b, 3 * n + j) = s.output;
    c.at(b, j) = s.c, h.at(b, j) = S(s.h);
  }
}

template <class S, class T>
__global__ void lstm_backward_kernel(Matrix<S> dx, Matrix<T> dh, Matrix<T> dc, Matrix<S> dh_t, Matrix<T> dc_t,
                                     Matrix<T> gates, Matrix<T> c, Matrix<T> c_before, Sequences all) {
  const int64_t n = all.channels;
  for (int64_t i = first_index(); i < all.count; i += grid_stride()) {
    const int64_t b = i / n, j = i - b * n;
    const T dh_all = dh.at(b, j) + (dh_t.data ? static_cast<T>(dh_t.at(b, j)) : T(0)),
            dc_all = dc.at(b, j) + (dc_t.data ? dc_t.at(b, j) : T(0));
    formula::LstmStepGradient<T> d{T(0), T(0), T(0), T(0), dc_all};
    const bool active = all.active(b);
    if (active) {
      const formula::LstmStep<T> s{gates.at(b, j),         gates.at(b, n + j), gates.at(b, 2 * n + j),
                                   gates.at(b, 3 * n + j), c.at(b, j),         T(0)};
      d = formula::LstmStepGradient<T>::of(s, c_before.at(b, j), dh_all, dc_all);
    }
    dx.at(b, j) = S(d.input), dx.at(b, n + j) = S(d.forget);
    dx.at(b, 2 * n + j) = S(d.candidate), dx.at(b, 3 * n + j) = S(d.output);
    dc.at(b, j) = d.c_before, dh.at(b, j) = active ? T(0) : dh_all;
  }
}

template <class S, class T>
__global__ void gru_kernel(Matrix<S> h, Matrix<T> gates, Matrix<S> x, Matrix<T> product, const T* bias,
                           Matrix<S> h_before, Sequences all) {
  const int64_t n = all.channels;
  for (int64_t i = first_index(); i < all.count; i += grid_stride()) {
    const int64_t b = i / n, j = i - b * n;
    if (!all.active(b)) {
      h.at(b, j) = h_before.at(b, j);
      continue;
    }
    const auto in = [&](int64_t gate) { return static_cast<T>(x.at(b, gate * n + j)); };
    const auto back = [&](int64_t gate) { return product.at(b, gate * n + j); };
    const auto s =
        formula::GruStep<T>::of(in(0) + back(0), in(1) + back(1), in(2), back(2) + (bias ? bias[j] : T(0)),
                                static_cast<T>(h_before.at(b, j)));
    gates.at(b, j) = s.reset, gates.at(b, n + j) = s.update;
    gates.at(b, 2 * n + j) = s.candidate, gates.at(b, 3 * n + j) = s.hidden;
    h.at(b, j) = S(s.h);
  }
}

template <class S, class T>
__global__ void gru_backward_kernel(Matrix<S> dx, Matrix<S> dproduct, Matrix<T> dh, Matrix<S> dh_t,
                                    Matrix<T> gates, Matrix<S> h_before, Sequences all) {
  const int64_t n = all.channels;
  for (int64_t i = first_index(); i < all.count; i += grid_stride()) {
    const int64_t b = i / n, j = i - b * n;
    const T dh_all = dh.at(b, j) + (dh_t.data ? static_cast<T>(dh_t.at(b, j)) : T(0));
    formula::GruStepGradient<T> d{T(0), T(0), T(0), T(0), dh_all};
    if (all.active(b)) {
      const formula::GruStep<T> s{gates.at(b, j), gates.at(b, n + j), gates.at(b, 2 * n + j),
                                  gates.at(b, 3 * n + j), T(0)};
      d = formula::GruStepGradient<T>::of(s, static_cast<T>(h_before.at(b, j)), dh_all);
    }
    dx.at(b, j) = S(d.reset), dx.at(b, n + j) = S(d.update), dx.at(b, 2 * n + j) = S(d.candidate);
    dproduct.at(b, j) = S(d.reset), dproduct.at(b, n + j) = S(d.update),
                   dproduct.at(b, 2 * n + j) = S(d.hidden);
    dh.at(b, j) = d.h_before;
  }
}

}  // namespace

void lstm_cell(Tensor& h, Tensor& c, Tensor& gates, const Tensor& x, const Tensor& product,
               const Tensor& h_before, const Tensor& c_before, const Tensor& lengths, int64_t t) {
  if (h.numel() == 0) return;
  visit_device_floating(x.dtype(), "lstm_cell", [&](auto type) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    VITRINE_LAUNCH((lstm_kernel<S, T>), blocks_for(h.numel()), kThreads, 0, Matrix<S>(h), Matrix<T>(c),
                   Matrix<T>(gates), Matrix<S>(x), Matrix<T>(product), Matrix<S>(h_before),
                   Matrix<T>(c_before), Sequences(h, lengths, t));
  });
}

void lstm_cell_backward(Tensor& dx, Tensor& dh, Tensor& dc, const Tensor& dh_t, const Tensor& dc_t,
                        const Tensor& gates, const Tensor& c, const Tensor& c_before, const Tensor& lengths,
                        int64_t t) {
  if (dh.numel() == 0) return;
  visit_device_floating(dx.dtype(), "lstm_cell_backward", [&](auto type) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    VITRINE_LAUNCH((lstm_backward_kernel<S, T>), blocks_for(dh.numel()), kThreads, 0, Matrix<S>(dx),
                   Matrix<T>(dh), Matrix<T>(dc), Matrix<S>(dh_t), Matrix<T>(dc_t), Matrix<T>(gates),
                   Matrix<T>(c), Matrix<T>(c_before), Sequences(dh, lengths, t));
  });
}

void gru_cell(Tensor& h, Tensor& gates, const Tensor& x, const Tensor& product, const Tensor& bias,
              const Tensor& h_before, const Tensor& lengths, int64_t t) {
  if (h.numel() == 0) return;
  visit_device_floating(x.dtype(), "gru_cell", [&](auto type) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const T* const shift = bias.defined() ? bias.data<T>() : nullptr;
    VITRINE_LAUNCH((gru_kernel<S, T>), blocks_for(h.numel()), kThreads, 0, Matrix<S>(h), Matrix<T>(gates),
                   Matrix<S>(x), Matrix<T>(product), shift, Matrix<S>(h_before), Sequences(h, lengths, t));
  });
}

void gru_cell_backward(Tensor& dx, Tensor& dproduct, Tensor& dh, const Tensor& dh_t, const Tensor& gates,
                       const Tensor& h_before, const Tensor& lengths, int64_t t) {
  if (dh.numel() == 0) return;
  visit_device_floating(dx.dtype(), "gru_cell_backward", [&](auto type) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    VITRINE_LAUNCH((gru_backward_kernel<S, T>), blocks_for(dh.numel()), kThreads, 0, Matrix<S>(dx),
                   Matrix<S>(dproduct), Matrix<T>(dh), Matrix<S>(dh_t), Matrix<T>(gates), Matrix<S>(h_before),
                   Sequences(dh, lengths, t));
  });
}

}  // namespace vitrine::cuda
