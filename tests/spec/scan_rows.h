#pragma once

#include <vector>

#include "tests/spec/spec.h"

namespace vitrine::spec {

/// Linear scans and selective scans.
std::vector<Spec> scan_rows();

}  // namespace vitrine::spec
