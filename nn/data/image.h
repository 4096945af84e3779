// Images with labels.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/tensor.h"
#include "nn/data/batch.h"
#include "nn/data/dataset.h"

namespace vitrine::nn {

/// A grey image, float32 [H, W] from 0 to 1, and its class.
struct LabelledImage {
  Tensor image;
  int64_t label = 0;
};

/// Images [B, H, W] and labels [B] as a batch of B items. Images of different sizes are an error.
Batch image_batch(std::span<const LabelledImage> images);

/// The images, then copies that are shifted by a pixel: up, down, left and right. The pixels that
/// come in are 0. A model that learns from them depends less on the place of what is shown.
Dataset<LabelledImage> with_shifts(const Dataset<LabelledImage>& images);

/// The file of optdigits (UCI, Alpaydin and Kaynak 1998): each line has 64 whole numbers from 0 to
/// 16, the rows of an image of 8 x 8 pixels, and the digit from 0 to 9, separated by commas. Pixels
/// are divided by 16. Anything else is an error with the number of the line.
Dataset<LabelledImage> read_optdigits(const std::string& path);

}  // namespace vitrine::nn
