// One position of recurrent cells: the channels of each row are vectorized, and rows run in
// parallel.
#include <algorithm>

#include "ops/cpu/rows.h"
#include "ops/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/recurrent.cpp"
#include "core/simd/dispatch.h"
#include "core/simd/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {
namespace recurrent {
#include "ops/formulas-inl.h"
#include "ops/formulas_recurrent-inl.h"

template <class S>
void lstm_row(S* h, AccumulatorOf<S>* c, AccumulatorOf<S>* gates, const S* x, const AccumulatorOf<S>* product,
              const AccumulatorOf<S>* c_before, size_t n) {
  using T = AccumulatorOf<S>;
  for_each_vector<T>(n, [=](auto get, auto put) HWY_ATTR {
    const auto sum = [&](size_t gate) HWY_ATTR { return get(x + gate * n) + get(product + gate * n); };
    const auto s = LstmStep<Vec<T>>::of(sum(0), sum(1), sum(2), sum(3), get(c_before));
    put(gates, s.input), put(gates + n, s.forget), put(gates + 2 * n, s.candidate),
        put(gates + 3 * n, s.output);
    put(c, s.c), put(h, s.h);
  });
}

template <class S>
void lstm_backward_row(S* dx, AccumulatorOf<S>* dh, AccumulatorOf<S>* dc, const AccumulatorOf<S>* gates,
                       const AccumulatorOf<S>* c, const AccumulatorOf<S>* c_before, size_t n) {
  using T = AccumulatorOf<S>;
  using V = Vec<T>;
  for_each_vector<T>(n, [=](auto get, auto put) HWY_ATTR {
    const LstmStep<V> s{get(gates), get(gates + n), get(gates + 2 * n), get(gates + 3 * n), get(c), V(0)};
    const auto d = LstmStepGradient<V>::of(s, get(c_before), get(dh), get(dc));
    put(dx, d.input), put(dx + n, d.forget), put(dx + 2 * n, d.candidate), put(dx + 3 * n, d.output);
    put(dc, d.c_before), put(dh, V(0));
  });
}

template <class S>
void gru_row(S* h, AccumulatorOf<S>* gates, const S* x, const AccumulatorOf<S>* product,
             const AccumulatorOf<S>* bias, const S* h_before, size_t n) {
  using T = AccumulatorOf<S>;
  using V = Vec<T>;
  for_each_vector<T>(n, [=](auto get, auto put) HWY_ATTR {
    const V shift = bias == nullptr ? V(0) : get(bias);
    const auto s = GruStep<V>::of(get(x) + get(product), get(x + n) + get(product + n), get(x + 2 * n),
                                  get(product + 2 * n) + shift, get(h_before));
    put(gates, s.reset), put(gates + n, s.update), put(gates + 2 * n, s.candidate),
        put(gates + 3 * n, s.hidden);
    put(h, s.h);
  });
}

template <class S>
void gru_backward_row(S* dx, S* dproduct, AccumulatorOf<S>* dh, const AccumulatorOf<S>* gates,
                      const S* h_before, size_t n) {
  using T = AccumulatorOf<S>;
  using V = Vec<T>;
  for_each_vector<T>(n, [=](auto get, auto put) HWY_ATTR {
    const GruStep<V> s{get(gates), get(gates + n), get(gates + 2 * n), get(gates + 3 * n), V(0)};
    const auto d = GruStepGradient<V>::of(s, get(h_before), get(dh));
    put(dx, d.reset), put(dx + n, d.update), put(dx + 2 * n, d.candidate);
    put(dproduct, d.reset), put(dproduct + n, d.update), put(dproduct + 2 * n, d.hidden);
    put(dh, d.h_before);
  });
}

}  // namespace recurrent
}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vitrine::cpu {
namespace {

template <class S>
S* row(const Tensor& x, int64_t b) {
  return x.defined() ? x.data<S>() + b * x.strides()[0] : nullptr;
}

/// Calls active(type, b, C) for each row that has position t and idle(type, b, C) for the others,
/// in parallel.
template <class Active, class Idle>
void for_each_sequence(const char* kernel, DType dtype, const Tensor& states, const Tensor& lengths,
                       int64_t t, Active&& active, Idle&& idle) {
  const int64_t n = states.size(1);
  visit_row_type(dtype, kernel, [&](auto type) {
    parallel_for(0, states.size(0), grain_for(64 * n), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        if (!lengths.defined() || t < lengths.data<int64_t>()[b])
          active(type, b, static_cast<size_t>(n));
        else
          idle(type, b, static_cast<size_t>(n));
      }
    });
  });
}

/// dh += dh_t, if dh_t is defined.
template <class S>
void add_own(const Tensor& dh, const Tensor& dh_t, int64_t b, size_t n) {
  if (dh_t.defined()) vecmath::axpy(row<AccumulatorOf<S>>(dh, b), AccumulatorOf<S>(1), row<S>(dh_t, b), n);
}

}  // namespace

void lstm_cell(Tensor& h, Tensor& c, Tensor& gates, const Tensor& x, const Tensor& product,
               const Tensor& h_before, const Tensor& c_before, const Tensor& lengths, int64_t t) {
  for_each_sequence(
      "lstm_cell", x.dtype(), h, lengths, t,
      [&](auto type, int64_t b, size_t n) {
        using S = typename decltype(type)::type;
        using T = AccumulatorOf<S>;
        VITRINE_DISPATCH(recurrent::lstm_row<S>)
        (row<S>(h, b), row<T>(c, b), row<T>(gates, b), row<S>(x, b), row<T>(product, b), row<T>(c_before, b),
         n);
      },
      [&](auto type, int64_t b, size_t n) {
        using S = typename decltype(type)::type;
        using T = AccumulatorOf<S>;
        std::copy_n(row<S>(h_before, b), n, row<S>(h, b));
        std::copy_n(row<T>(c_before, b), n, row<T>(c, b));
      });
}

void lstm_cell_backward(Tensor& dx, Tensor& dh, Tensor& dc, const Tensor& dh_t, const Tensor& dc_t,
                        const Tensor& gates, const Tensor& c, const Tensor& c_before, const Tensor& lengths,
                        int64_t t) {
  const auto add = [&](auto type, int64_t b, size_t n) {
    using S = typename decltype(type)::type;
    add_own<S>(dh, dh_t, b, n);
    add_own<AccumulatorOf<S>>(dc, dc_t, b, n);
  };
  for_each_sequence(
      "lstm_cell_backward", dx.dtype(), dh, lengths, t,
      [&](auto type, int64_t b, size_t n) {
        using S = typename decltype(type)::type;
        using T = AccumulatorOf<S>;
        add(type, b, n);
        VITRINE_DISPATCH(recurrent::lstm_backward_row<S>)
        (row<S>(dx, b), row<T>(dh, b), row<T>(dc, b), row<T>(gates, b), row<T>(c, b), row<T>(c_before, b), n);
      },
      [&](auto type, int64_t b, size_t n) {
        using S = typename decltype(type)::type;
        add(type, b, n);
        std::fill_n(row<S>(dx, b), 4 * n, S(0));
      });
}

void gru_cell(Tensor& h, Tensor& gates, const Tensor& x, const Tensor& product, const Tensor& bias,
              const Tensor& h_before, const Tensor& lengths, int64_t t) {
  for_each_sequence(
      "gru_cell", x.dtype(), h, lengths, t,
      [&](auto type, int64_t b, size_t n) {
        using S = typename decltype(type)::type;
        using T = AccumulatorOf<S>;
        VITRINE_DISPATCH(recurrent::gru_row<S>)
        (row<S>(h, b), row<T>(gates, b), row<S>(x, b), row<T>(product, b), row<T>(bias, 0),
         row<S>(h_before, b), n);
      },
      [&](auto type, int64_t b, size_t n) {
        using S = typename decltype(type)::type;
        std::copy_n(row<S>(h_before, b), n, row<S>(h, b));
      });
}

void gru_cell_backward(Tensor& dx, Tensor& dproduct, Tensor& dh, const Tensor& dh_t, const Tensor& gates,
                       const Tensor& h_before, const Tensor& lengths, int64_t t) {
  for_each_sequence(
      "gru_cell_backward", dx.dtype(), dh, lengths, t,
      [&](auto type, int64_t b, size_t n) {
        using S = typename decltype(type)::type;
        using T = AccumulatorOf<S>;
        add_own<S>(dh, dh_t, b, n);
        VITRINE_DISPATCH(recurrent::gru_backward_row<S>)
        (row<S>(dx, b), row<S>(dproduct, b), row<T>(dh, b), row<T>(gates, b), row<S>(h_before, b), n);
      },
      [&](auto type, int64_t b, size_t n) {
        using S = typename decltype(type)::type;
        add_own<S>(dh, dh_t, b, n);
        std::fill_n(row<S>(dx, b), 3 * n, S(0));
        std::fill_n(row<S>(dproduct, b), 3 * n, S(0));
      });
}

}  // namespace vitrine::cpu
#endif
