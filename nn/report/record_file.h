// The record of a run as a file, so that reports can draw runs together later.
#pragma once

#include <string>

#include "nn/report/run.h"

namespace vitrine::nn::report {

/// Writes everything of the record as JSON. The write is atomic. Bytes of texts that are not UTF-8
/// become U+FFFD, as they do in a report; numbers that are not finite become null.
void write_record(const std::string& path, const RunRecord& record);

/// Reads what write_record wrote: null becomes NaN. Errors, which name the path: no such file, and
/// a file that is no record.
RunRecord read_record(const std::string& path);

}  // namespace vitrine::nn::report
