#pragma once

#include <vector>

#include "tests/spec/spec.h"

namespace vitrine::spec {

std::vector<Spec> ctc_rows();

}  // namespace vitrine::spec
