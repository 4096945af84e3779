// The report of a search.
#pragma once

#include <string>
#include <vector>

#include "nn/training/search.h"

namespace vitrine::examples {

/// Writes a page with a table of the trials, the best first, and the loss by the value of each
/// option. `flops` has the cost of each trial.
void write_search_page(const std::string& path, const std::vector<nn::training::SearchAxis>& axes,
                       const std::vector<int64_t>& rungs,
                       const std::vector<nn::training::TrialResult>& results,
                       const std::vector<double>& flops);

}  // namespace vitrine::examples
