// The dtype in which a long check runs a spec row.
#pragma once

#include <iterator>
#include <optional>

#include "core/dtype.h"
#include "tests/environment.h"
#include "tests/spec/spec.h"

namespace vitrine::test {

/// The dtype in which `make test` checks a row: rows take those that they have by turn. `make
/// check` runs each row in all dtypes, for which this returns nothing.
inline std::optional<DType> dtype_of_row(const spec::Spec& row, size_t turn) {
  if (all_samples()) return std::nullopt;
  constexpr DType kTurns[] = {DType::float32, DType::bfloat16, DType::float64, DType::float16};
  const DType dtype = kTurns[turn % std::size(kTurns)];
  const bool has = (dtype != DType::bfloat16 || row.bfloat16_units >= 0) &&
                   (dtype != DType::float16 || row.float16_units >= 0);
  return has ? dtype : DType::float32;
}

}  // namespace vitrine::test
