#pragma once

#include <vector>

#include "tests/spec/spec.h"

namespace vitrine::spec {

/// Convolutions and pooling.
std::vector<Spec> convolution_rows();

}  // namespace vitrine::spec
