// The training report: one HTML file that shows one run, or several runs side by side, and needs
// only a browser.
#pragma once

#include <string>
#include <vector>

#include "nn/report/run.h"

namespace vitrine::nn::report {

/// The HTML of the page. All text of the runs is escaped; bytes that are not UTF-8 become U+FFFD.
/// The page loads nothing (its content policy forbids it) and works without a network. Only
/// attention maps and tooltips need scripts. Errors: a series with unequal numbers of x and y; a
/// map whose weights do not fit its labels.
std::string render_report(const std::string& title, const std::vector<RunRecord>& runs);

/// Writes render_report to `path`, by renaming a synchronized temporary file in the same folder.
/// Readers see either the old file or the new file, never a part. If a step fails, the old file
/// remains, and the error names the path and the cause.
void write_report(const std::string& path, const std::string& title, const std::vector<RunRecord>& runs);

}  // namespace vitrine::nn::report
