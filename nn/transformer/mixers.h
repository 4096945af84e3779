// Mixers by name: a base, with the parts that it accepts. Examples: "standard",
// "laser+rotary", "lstm", "performer=64+laser".
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nn/attention/multi_head.h"
#include "nn/attention/names.h"

namespace vitrine::nn {

/// A row of the table of bases: an attention, if `attention` is given, or another mixer, if `make`
/// is.
struct MixerRow {
  std::string name;
  std::string help = {};
  std::string formula = {};        ///< as a proof card shows it
  std::string source = {};         ///< the paper
  std::vector<Stage> stages = {};  ///< the stages whose parts it accepts
  bool positions = false;          ///< the mixer itself depends on positions
  bool order = false;              ///< without positions, too, it depends on the order
  bool causal = true;              ///< it can hide the positions after a query
  bool key_heads = true;           ///< MixerOptions::key_heads has a meaning
  bool padding = true;             ///< it can hide keys, as in a batch of texts of other lengths
  /// The name, with options if needed, under which time and memory grow linearly with the length.
  /// Empty: they grow faster
  std::string linear_as = {};
  std::vector<PartOption> options = {};
  /// Makes the attention with these parts; see MultiHeadAttention.
  std::function<std::unique_ptr<Attention>(const AttentionName& parts, const AttentionSizes&,
                                           const PartValues&)>
      attention = {};
  /// Makes the mixer with these parts.
  std::function<std::unique_ptr<Mixer>(const MixerOptions&, const AttentionName& parts, const PartValues&)>
      make = {};
};

/// A parsed name, from parse_mixer.
struct MixerName {
  const MixerRow* base;
  AttentionName parts;
  PartValues values = PartValues();  ///< of the base's options
  std::string base_text = {};        ///< as given by the user: "performer=64"
  /// The base, unless it is dot-product attention with parts, and the parts in their order
  std::string text() const;
};

/// Parses a name: at most one base (default: dot-product attention, "standard") and parts, joined
/// by +, each with its options. Errors: an unknown word (the message suggests the nearest known
/// one); options that are missing, unknown or out of range; two bases; a part of a stage that the
/// base does not accept.
MixerName parse_mixer(const std::string& name);
/// Makes the mixer that the options name. Errors: those of parse_mixer; a causal mixer of a base
/// that cannot hide later positions; key_heads for a base that has no heads of keys.
std::unique_ptr<Mixer> make_mixer(const MixerOptions& options);
/// Makes the attention to a source, cross_attention_of(options).
std::unique_ptr<MultiHeadAttention> make_cross_attention(MixerOptions options);
/// Adds a row, for `--mixer name`. Errors: a name that is taken; a row with both functions or with
/// neither.
void register_mixer(MixerRow row);
/// The table: the bases of the library, and the registered ones if `registered`.
std::vector<const MixerRow*> mixer_table(bool registered = true);
/// A help text: bases and parts, one per line with a description.
std::string mixer_help();
/// The name of the attention for cross-attention: without the parts that require queries and keys
/// to share their positions. "standard" if the base is not an attention.
std::string cross_attention_of(const MixerOptions& options);
/// True if MixerOptions::key_heads has a meaning for this name.
bool has_key_heads(const std::string& name);
/// True if the mixer itself depends on positions, so that a model adds no position embedding.
bool brings_positions(const MixerOptions& options);
/// True if another order of the positions changes more than the order of the results.
bool depends_on_order(const MixerOptions& options);

}  // namespace vitrine::nn
