// The text that programs read by default.
#pragma once

#include <string>

#include "nn/text/read_text.h"

namespace vitrine::examples {

/// A snapshot of Vitrine's own source and documents (examples/data/README.md). It never changes, so
/// that losses of different days can be compared.
inline std::string default_text() {
  return nn::read_text(VITRINE_SOURCE_DIR "/examples/data/vitrine_source.txt");
}

}  // namespace vitrine::examples
