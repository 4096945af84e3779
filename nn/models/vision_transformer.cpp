#include "nn/models/vision_transformer.h"
#include "nn/models/deviation.h"

#include "core/record.h"
#include "nn/init.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

/// The options with the context that the patches and the class need.
VisionTransformerOptions completed(VisionTransformerOptions o) {
  for (const int64_t size : {o.channels, o.height, o.width, o.patch, o.classes})
    check(size >= 1, "VisionTransformer: a size is {}, wanted at least 1", size);
  check(o.height % o.patch == 0 && o.width % o.patch == 0,
        "VisionTransformer: patches of {} pixels do not cover an image of {} x {}", o.patch, o.height,
        o.width);
  o.stack.block.mixer.context = 1 + (o.height / o.patch) * (o.width / o.patch);
  return o;
}

int64_t model_width(const VisionTransformerOptions& o) { return o.stack.block.mixer.width; }

}  // namespace

Tensor image_patches(const Tensor& images, int64_t patch) {
  check(images.rank() == 4 && images.size(2) % patch == 0 && images.size(3) % patch == 0,
        "image_patches: the images are {}, wanted [B, channels, H, W] with multiples of {}", images.shape(),
        patch);
  const int64_t batch = images.size(0), channels = images.size(1), rows = images.size(2) / patch,
                columns = images.size(3) / patch;
  const Tensor cut = reshape(images, {batch, channels, rows, patch, columns, patch});
  return reshape(permute(cut, {0, 2, 4, 1, 3, 5}), {batch, rows * columns, channels * patch * patch});
}

VisionTransformer::VisionTransformer(const VisionTransformerOptions& options)
    : patches((completed(options), options.channels * options.patch * options.patch), model_width(options),
              Bias::yes, kDeviation),
      token(normal({1, 1, model_width(options)}, kDeviation)),
      positions(normal({completed(options).stack.block.mixer.context, model_width(options)}, kDeviation)),
      dropout(options.stack.block.dropout),
      encoder(completed(options).stack),
      head(model_width(options), options.classes, Bias::yes, kDeviation),
      options_(completed(options)) {
  named_parameters();  // sets the parameters' names, for messages and drawings
}

Tensor VisionTransformer::features(const Tensor& images, const StackCall& call) const {
  const VisionTransformerOptions& o = options_;
  const Tensor x = images.rank() == 3 && o.channels == 1 ? unsqueeze(images, 1) : images;
  check(x.rank() == 4 && x.size(1) == o.channels && x.size(2) == o.height && x.size(3) == o.width,
        "VisionTransformer: the images are {}, wanted [B, {}, {}, {}]", images.shape(), o.channels, o.height,
        o.width);
  Tensor sequence;
  {
    const ModuleScope scope("patches");
    const Tensor pieces = patches.forward(cast(image_patches(x, o.patch), patches.weight.dtype()));
    sequence = concat({expand(token, {x.size(0), 1, model_width(o)}), pieces}, 1);
    sequence = dropout.forward(sequence + positions);
  }
  return encoder.forward(sequence, call);
}

Tensor VisionTransformer::forward(const Tensor& images) const {
  return head.forward(select(features(images), 1, 0));
}

void VisionTransformer::fields(Fields& f) {
  f("patches", patches);
  f("token", token);
  f("positions", positions);
  f("dropout", dropout);
  f("encoder", encoder);
  f("head", head);
}

VisionTransformer VisionTransformer::clone() {
  return clone_into([this] { return VisionTransformer(options_); });
}

}  // namespace vitrine::nn
