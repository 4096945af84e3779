// Attention by name: a base and parts, joined by +, as in "laser+qk_norm+alibi" or
// "rotary=theta=500000+softcap=30".
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/attention/attention.h"
#include "nn/attention/part.h"

namespace vitrine::nn {

/// A part with its options.
struct PartChoice {
  const AttentionPartRow* row;
  PartValues values;
  std::string text;  ///< as it was written: "softcap=30"
};

/// What a name says. parse_attention makes it.
struct AttentionName {
  std::vector<PartChoice> parts;  ///< in the order in which they run: by stage, then by rank
  /// The parts joined by + in that order: names of one mechanism have one text. "standard" where
  /// there are none.
  std::string text() const;
};

/// Scaled dot product attention ("standard") with the parts of the name. Errors: an unknown part,
/// with the nearest known one; options that are missing, unknown or out of range; a part twice; two
/// parts for a stage that has one owner.
AttentionName parse_attention(const std::string& name);
/// The attention of that name.
std::unique_ptr<Attention> make_attention(const std::string& name, const AttentionSizes& sizes);
/// True if scores depend on positions by a part of that name, so that a model adds no position
/// embedding.
bool brings_positions(const AttentionName& name, const AttentionSizes& sizes);
/// The parts that parse_attention knows, one a line with what it does.
std::string attention_parts();

/// A word that a name may have besides parts.
struct KnownName {
  std::string name, help;
};
/// The parts of the name `whole`, from the pieces that are no base; errors list `bases` among what
/// is known.
AttentionName parse_parts(const std::vector<std::string>& pieces, const std::string& whole,
                          const std::vector<KnownName>& bases);
/// A line of a list of names.
std::string help_line(const std::string& name, const std::string& help, const std::string& source);

}  // namespace vitrine::nn
