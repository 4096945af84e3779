// The training report: one HTML file that shows a run, or several side by side, and needs nothing
// but a browser.
#pragma once

#include <string>
#include <vector>

#include "nn/report/run.h"

namespace vitrine::nn::report {

/// The page as a string. All text of the runs is escaped; bytes that are not UTF-8 become U+FFFD.
/// The page loads nothing (its content policy forbids it), works without a network and, but for
/// attention maps and tooltips, without scripts. Throws if a series has unequal x and y, or a map's
/// weights do not fit its labels.
std::string render_report(const std::string& title, const std::vector<RunRecord>& runs);

/// Writes render_report to `path` through a temporary file in the same folder, synced and renamed:
/// readers see the old file or the new one, never a part. Throws, naming path and cause, and leaves
/// the old file, if any step fails.
void write_report(const std::string& path, const std::string& title, const std::vector<RunRecord>& runs);

}  // namespace vitrine::nn::report
