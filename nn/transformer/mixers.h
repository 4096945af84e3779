// Mixers by name: one base, and parts where the base is attention. "standard", "laser+rotary",
// "lstm".
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nn/attention/multi_head.h"
#include "nn/attention/names.h"

namespace vitrine::nn {

/// A line of the table of bases: an attention (`attention` is given), or another mixer (`make` is).
struct MixerRow {
  std::string name;
  std::string help = {};
  std::string source = {};         ///< the paper
  std::vector<Stage> stages = {};  ///< the parts that it accepts are of these stages
  bool positions = false;          ///< it tells positions apart by itself
  /// The attention with these parts; see MultiHeadAttention.
  std::function<std::unique_ptr<Attention>(const AttentionName& parts, const AttentionSizes&)> attention = {};
  std::function<std::unique_ptr<Mixer>(const MixerOptions&)> make = {};
};

/// What a name says. parse_mixer makes it.
struct MixerName {
  const MixerRow* base;
  AttentionName parts;
  /// The base, unless it is dot product with parts, and the parts in their order
  std::string text() const;
};

/// At most one base, dot product attention ("standard") by default, and parts, joined by +. Errors:
/// an unknown word, with the nearest known one; two bases; a part of a stage that the base does not
/// accept.
MixerName parse_mixer(const std::string& name);
/// The mixer that the options name.
std::unique_ptr<Mixer> make_mixer(const MixerOptions& options);
/// Adds a row, for `--mixer name`. A name that is taken, and a row with both or none of its
/// functions, are errors.
void register_mixer(MixerRow row);
/// The table: the library's bases, and the registered ones if they are asked for.
std::vector<const MixerRow*> mixer_table(bool registered = true);
/// Bases and parts, one a line with what it does.
std::string mixer_help();
/// The attention of that name without the parts for which queries and keys have to share their
/// positions: for cross-attention. "standard" where the base is no attention.
std::string cross_attention_of(const MixerOptions& options);
/// True if the mixer tells positions apart by itself, so that a model adds no position embedding.
bool brings_positions(const MixerOptions& options);

}  // namespace vitrine::nn
