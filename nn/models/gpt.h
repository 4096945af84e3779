// A decoder-only Transformer in the manner of GPT-2 (Radford et al. 2019), its parts
// interchangeable.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/layers/embedding.h"
#include "nn/models/language_model.h"
#include "nn/options.h"

namespace vitrine::nn {

/// What tells tokens apart by their place. `automatic`: learned, or nothing where the attention
/// brings its own (rotary, alibi).
enum class Positions { automatic, learned, sinusoidal, none };
inline EnumNames<Positions> names_of(Positions) {
  return {"kind of positions",
          {{"automatic", Positions::automatic},
           {"learned", Positions::learned},
           {"sinusoidal", Positions::sinusoidal},
           {"none", Positions::none}},
          " (rotary and alibi are parts of attention)"};
}

/// Sizes and parts of a Gpt. All sizes are at least 1 where 0 has no meaning of its own.
struct GptOptions {
  int64_t vocabulary = 65;  ///< V: number of tokens
  int64_t context = 64;     ///< the longest sequence
  int64_t width = 128;      ///< C, a multiple of heads
  int64_t layers = 4;       ///< number of blocks
  int64_t heads = 4;        ///< H
  /// Fewer than heads, a divisor of them: grouped queries; 0 = heads
  int64_t key_heads = 0;
  int64_t hidden = 0;  ///< width inside the feed-forward part; 0 = 4·width
  /// Probability in [0, 1), of embeddings and of what blocks add
  double dropout = 0;
  std::string attention = "standard";             ///< the name of the mixer, see parse_mixer
  Activation activation = Activation::gelu_tanh;  ///< of the feed-forward part
  NormKind norm = NormKind::layer;                ///< of blocks and of the end
  bool pre_norm = true;   ///< norms before attention and feed-forward; else after the sums
  Bias bias = Bias::yes;  ///< of the linear layers
  /// The output layer is the table of embeddings; else it has weights of its own
  bool tied = true;
  Positions positions = Positions::automatic;
  /// Saves memory in training: blocks keep their input only and are computed again in the backward.
  bool recompute_blocks = false;

  void list(OptionList& o);  ///< see nn/options.h
  /// Throws an error that says what is wrong with them.
  void validate() const;
};

/// Token (and position) embeddings, a decoder, and logits: features·tokensᵀ, or by a layer of their
/// own where the weights are not tied. Weights start as N(0, 0.02²), those of the projections that
/// add to the residual stream as residual_deviation says.
class Gpt : public LanguageModel {
 public:
  /// Options that contradict each other are an error (validate)
  explicit Gpt(const GptOptions& options);
  int64_t vocabulary() const override { return options_.vocabulary; }
  int64_t context() const override { return options_.context; }
  std::string kind() const override { return "gpt"; }
  OptionValues settings() const override { return option_values(options_, {Role::result}); }
  int64_t values_per_token() const override { return options_.vocabulary + options_.width * options_.layers; }
  Tensor features(const Tensor& ids, const StackCall& call = {}) const override;
  Tensor logits(const Tensor& features) const override;
  /// Its capacity is the context, or without a limit where neither the mixers nor the positions
  /// have one.
  std::unique_ptr<DecodingState> make_state(int64_t batch = 1) const override;
  void fields(Fields& f) override;
  Gpt clone();
  const GptOptions& options() const { return options_; }

  Embedding tokens;     ///< also the output layer, where the weights are tied
  Parameter positions;  ///< [context, C]; undefined unless learned
  Dropout dropout;
  Decoder decoder;
  std::unique_ptr<Linear> head;  ///< null where the weights are tied

 private:
  /// With the dtype and on the device of `like`.
  Tensor position_rows(int64_t begin, int64_t end, const Tensor& like) const;

  GptOptions options_;
};

}  // namespace vitrine::nn
