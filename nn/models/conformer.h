// The Conformer, which recognizes speech: attention and convolution in one block (Gulati et al.
// 2020).
#pragma once

#include <memory>
#include <vector>

#include "nn/layers/conformer_convolution.h"
#include "nn/layers/dropout.h"
#include "nn/layers/feed_forward.h"
#include "nn/transformer/mixers.h"

namespace vitrine::nn {

/// Sizes and parts of a Conformer.
struct ConformerOptions {
  int64_t features = 40;  ///< numbers of a frame, such as log-mel energies
  int64_t classes = 11;   ///< V: labels and the blank
  int64_t layers = 2;
  int64_t kernel = 15;  ///< frames that a convolution sees, odd
  int64_t hidden = 0;   ///< width inside the feed-forward parts; 0 = 4·width
  double dropout = 0;   ///< in [0, 1): for what each part adds
  /// The width C, the heads and the parts of the attention. Rotary depends on the distance of two
  /// frames, as the relative positions of the paper do. A mixer runs in both directions
  MixerOptions mixer = {.name = "rotary"};
  /// Saves memory: the backward computes each block again, so its activations are not kept
  bool recompute_blocks = false;
};

/// x ← x + ½·f₁(x), x + mixer(norm(x)), x + convolution(x), x + ½·f₂(x), and a norm: the
/// feed-forward parts fᵢ, W₂·silu(W₁·norm(x)), are two half steps around the others.
class ConformerBlock : public Module {
 public:
  explicit ConformerBlock(const ConformerOptions& options);
  Tensor forward(const Tensor& x, const Tensor& lengths = {}) const;  ///< [B, T, C], int64 [B]
  void fields(Fields& f) override;
  ConformerBlock clone();

  Norm first_norm;
  FeedForward first;
  Norm mixer_norm;
  std::unique_ptr<Mixer> mixer;
  ConformerConvolution convolution;
  Norm second_norm;
  FeedForward second;
  Norm final_norm;
  Dropout dropout;

 private:
  ConformerOptions options_;
};

/// Two convolutions along time of stride 2 make a vector of four frames, then the blocks follow. A
/// linear layer gives the logits of a label or the blank, for ctc_loss.
class Conformer : public Module {
 public:
  explicit Conformer(const ConformerOptions& options);
  struct Result {
    Tensor logits;   ///< [B, T', V] with T' = ⌈T/4⌉
    Tensor lengths;  ///< int64 [B]: ⌈lengths/4⌉
  };
  /// frames [B, T, features]. Row b has lengths[b] frames (int64 [B]; undefined: T), and what
  /// follows them is padding, which changes no logits of the row's own frames in evaluation mode.
  Result forward(const Tensor& frames, const Tensor& lengths = {}) const;
  void fields(Fields& f) override;
  Conformer clone();

  Conv1d halve, halve_again;
  Dropout dropout;
  std::vector<std::unique_ptr<ConformerBlock>> blocks;
  Linear head;

 private:
  ConformerOptions options_;
};

}  // namespace vitrine::nn
