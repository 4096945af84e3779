// Filling, copying with conversion, and adding up, with any strides.
#include "core/convert.h"
#include "core/kernels.h"
#include "cuda/strided.h"

namespace vitrine::cuda {
namespace {

template <class S>
__global__ void fill_kernel(S* y, Strided<1> layout, S value) {
  for (int64_t i = first_index(); i < layout.count; i += grid_stride()) {
    int64_t at[1];
    layout.locate(i, at);
    y[at[0]] = value;
  }
}

template <class To, class From>
__global__ void copy_kernel(To* y, const From* x, Strided<2> layout) {
  for (int64_t i = first_index(); i < layout.count; i += grid_stride()) {
    int64_t at[2];
    layout.locate(i, at);
    y[at[0]] = convert<To>(x[at[1]]);
  }
}

template <class To, class From>
__global__ void accumulate_kernel(To* y, const From* x, Strided<2> layout) {
  for (int64_t i = first_index(); i < layout.count; i += grid_stride()) {
    int64_t at[2];
    layout.locate(i, at);
    y[at[0]] = To(static_cast<Wide<To>>(y[at[0]]) + convert<Wide<To>>(x[at[1]]));
  }
}

}  // namespace

void fill(Tensor& y, double value) {
  if (y.numel() == 0) return;
  visit_device(y.dtype(), "fill", [&](auto type) {
    using S = typename decltype(type)::type;
    VITRINE_LAUNCH((fill_kernel<S>), blocks_for(y.numel()), kThreads, 0, y.data<S>(), Strided<1>::of(y),
                   convert<S>(value));
  });
}

void copy(Tensor& y, const Tensor& x) {
  check(y.shape() == x.shape(), "copy: the shapes {} and {} differ", y.shape(), x.shape());
  if (y.numel() == 0) return;
  visit_device(y.dtype(), "copy", [&](auto to) {
    visit_device(x.dtype(), "copy", [&](auto from) {
      using To = typename decltype(to)::type;
      using From = typename decltype(from)::type;
      VITRINE_LAUNCH((copy_kernel<To, From>), blocks_for(y.numel()), kThreads, 0, y.data<To>(),
                     x.data<From>(), Strided<2>::of(y, x));
    });
  });
}

void accumulate(Tensor& y, const Tensor& x) {
  check(y.shape() == x.shape(), "accumulate: the shapes {} and {} differ", y.shape(), x.shape());
  if (y.numel() == 0) return;
  visit_device_floating(y.dtype(), "accumulate", [&](auto to) {
    visit_device_floating(x.dtype(), "accumulate", [&](auto from) {
      using To = typename decltype(to)::type;
      using From = typename decltype(from)::type;
      VITRINE_LAUNCH((accumulate_kernel<To, From>), blocks_for(y.numel()), kThreads, 0, y.data<To>(),
                     x.data<From>(), Strided<2>::of(y, x));
    });
  });
}

}  // namespace vitrine::cuda
