// Files as the formats need them: written whole or not at all. For reading see core/input_file.h.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/tensor.h"

namespace vitrine {

/// The bytes of a contiguous tensor in the CPU's memory.
std::string_view bytes_of(const Tensor& x);

/// An Error where write_file could not write: a folder, a device, or no place for a new file.
void check_can_write(std::string_view op, const std::string& path);

/// Writes the parts one behind the other to a temporary file beside `path`, syncs, and renames: whatever happens, `path`
/// is the old file or the new one; a link stays, and what it leads to is written. What is there and no file, a device or a pipe, is
/// an error; so is what fails, with the system's reason.
void write_file(std::string_view op, const std::string& path, std::span<const std::string_view> parts);

}  // namespace vitrine
