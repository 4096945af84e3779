// Sound from WAV files.
#pragma once

#include <cstdint>
#include <string>

#include "core/tensor.h"

namespace vitrine::nn {

/// The samples of a WAV file with one channel, float32 [T]; whole numbers of n bits are divided by
/// 2^(n−1), which gives [−1, 1). Samples are whole numbers of 8, 16, 24 or 32 bits, or floating
/// point. Errors: several channels, another rate than `rate` in Hz, another encoding, no samples, a
/// sample that is not finite, and sizes in the header that are not those of the file.
Tensor read_wav(const std::string& path, int64_t rate);

}  // namespace vitrine::nn
