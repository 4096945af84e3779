// A Transformer of images (Dosovitskiy et al. 2021).
#pragma once

#include "nn/layers/linear.h"
#include "nn/transformer/stack.h"

namespace vitrine::nn {

/// Sizes and parts of a VisionTransformer. The mixer of the stack's block sets the width C; its
/// context is set by the number of patches.
struct VisionTransformerOptions {
  int64_t channels = 1, height = 28, width = 28;  ///< of an image
  int64_t patch = 7;                              ///< side of a patch; divides height and width
  int64_t classes = 10;
  StackOptions stack = {};
};

/// An image is cut into P patches, and a linear layer makes a vector of each. A learned vector for
/// the class comes before them, learned positions are added, and an Encoder follows. The logits are
/// a linear function of the class's feature.
class VisionTransformer : public Module {
 public:
  explicit VisionTransformer(const VisionTransformerOptions& options);  ///< out of range: an error
  /// images [B, channels, height, width], or [B, height, width] if there is one channel →
  /// [B, 1 + P, C]: the class, then the patches row by row.
  Tensor features(const Tensor& images, const StackCall& call = {}) const;
  Tensor forward(const Tensor& images) const;  ///< the logits [B, classes]
  void fields(Fields& f) override;
  VisionTransformer clone();
  const VisionTransformerOptions& options() const { return options_; }

  Linear patches;       ///< [C, channels·patch²]
  Parameter token;      ///< [1, 1, C]: the class
  Parameter positions;  ///< [1 + P, C]
  Dropout dropout;
  Encoder encoder;
  Linear head;

 private:
  VisionTransformerOptions options_;
};

/// Patches of images [B, channels, H, W] as [B, P, channels·patch²], row by row of patches. Errors:
/// sizes that `patch` does not divide.
Tensor image_patches(const Tensor& images, int64_t patch);

}  // namespace vitrine::nn
