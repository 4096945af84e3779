// Drawn digits: small grey images of the digits 0 to 9.
#pragma once

#include <cstdint>

#include "nn/data/image.h"
#include "nn/data/synthetic/part.h"

namespace vitrine::nn::synthetic {

struct DigitOptions {
  int64_t side = 16;  ///< pixels
  /// How far a drawing is turned, slanted, scaled, moved and bent; 0: not at all.
  double jitter = 1;
  double noise = 0.1;  ///< uniform noise from 0 to this is added to each pixel
};

/// Images [side, side] and the digit. A digit is a few strokes, lists of points in a unit square.
/// An affine map and a small shift of each point vary them, and a pen of random thickness draws
/// them: a pixel is as dark as its distance to the nearest stroke says.
Dataset<LabelledImage> digits(Part part, int64_t size, const DigitOptions& options = {}, uint64_t seed = 0);

}  // namespace vitrine::nn::synthetic
