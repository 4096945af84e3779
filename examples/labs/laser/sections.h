// The sections of the page on LASER.
#pragma once

#include "core/tensor.h"
#include "nn/report/page.h"

namespace vitrine::labs {

nn::report::Section two_keys_section();   ///< the Jacobian of two keys, and its limit
nn::report::Section bounds_section();     ///< bounds for any number of keys, and random data
nn::report::Section maximum_section();    ///< log-sum-exp against the maximum
nn::report::Section precision_section();  ///< rounding of the published and the robust form
nn::report::Section trick_section();      ///< the form without the shift by the maximum
nn::report::Section weights_section();    ///< shares of tiny weights
nn::report::Section cost_section();       ///< time and memory of training steps

/// |∂o/∂s₁| of two keys over the gap of their scores, for gaps 1 and 10 of their values.
nn::report::LineChart two_keys_chart();

/// The forms of LASER that are compared, causal: q, k and v are [B, H, T, D].
enum class LaserForm {
  direct,     ///< log(a·e^v)
  published,  ///< m + log(a·e^(v − m)), where m is the maximum of each channel over all keys
  robust      ///< the library's
};
Tensor laser(LaserForm form, const Tensor& q, const Tensor& k, const Tensor& v);

}  // namespace vitrine::labs
