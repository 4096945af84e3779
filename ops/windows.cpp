#include "ops/windows.h"

#include <cstdint>

#include "core/error.h"

namespace vitrine {

WindowAxis window_axis(std::string_view op, std::string_view axis, int64_t size, int64_t kernel,
                       int64_t stride, const Padding& padding, int64_t dilation, LastWindow last) {
  check(kernel >= 1, "{}: the kernel has {} {}, wanted at least 1", op, kernel, axis);
  check(stride >= 1, "{}: the stride of {} is {}, wanted at least 1", op, axis, stride);
  check(dilation >= 1, "{}: the dilation of {} is {}, wanted at least 1", op, axis, dilation);
  check(padding.before >= 0 && padding.after >= 0, "{}: the padding of {} is ({}, {}), wanted at least 0", op,
        axis, padding.before, padding.after);
  constexpr int64_t kMost = INT64_MAX / 8;  // so that no sum below overflows
  int64_t reach = 0;
  check(!__builtin_mul_overflow(kernel, dilation, &reach) && reach < kMost && stride < kMost &&
            padding.before < kMost && padding.after < kMost,
        "{}: a number of {} is too large: kernel {}, dilation {}, stride {}, padding ({}, {})", op, axis,
        kernel, dilation, stride, padding.before, padding.after);
  WindowAxis w{
      .size = size, .kernel = kernel, .stride = stride, .before = padding.before, .dilation = dilation};
  if (size == 0) {
    w.count = 0;
    return w;
  }
  const int64_t padded = padding.before + size + padding.after, rest = padded - w.extent();
  check(rest >= 0, "{}: a window has {} {}, and x has {} with its padding", op, w.extent(), axis, padded);
  w.count = rest / stride + 1;
  // One more window, if some elements are left for it and it begins before the padding at the end.
  if (last == LastWindow::partial && rest % stride != 0 && w.count * stride < padding.before + size)
    ++w.count;
  return w;
}

}  // namespace vitrine
