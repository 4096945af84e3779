// Reference cases computed independently of this library: what their runners share.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "tests/noted.h"

namespace vitrine::test {

/// A JSON file of the data directory; nothing where data_file() has none.
std::optional<Json> read_json(const std::string& name);

/// A checked-in list of what is skipped, one `name: reason` a line, # comments. The path is relative to the sources.
std::map<std::string, std::string> read_skips(const std::string& path);

}  // namespace vitrine::test
