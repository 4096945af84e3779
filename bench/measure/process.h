// Benchmarks run each contender in a separate process, so that its peak memory can be measured.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace vitrine::bench {

/// Runs a command in a shell and parses the last line that it prints as JSON. Fails with the
/// command if it fails.
nlohmann::json run_for_json(const std::string& command);

/// The same of another's program. Its failure must not take our figures with it: the failure is
/// reported, and the result is null.
nlohmann::json run_or_tell(const std::string& what, const std::string& command);

/// The path of this program, to run parts of it as processes of their own.
std::string this_program();

/// "ENVIRONMENT python bench/pytorch/SCRIPT", with a malloc that keeps freed memory, which makes
/// PyTorch faster. The first call prints the version of PyTorch. Empty if no Python has torch; the
/// first call then says how to install it.
std::string pytorch(const std::string& script);

/// Peak resident memory of this process so far, MiB.
double peak_mib();

}  // namespace vitrine::bench
