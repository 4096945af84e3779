// Attention by name: parts joined by +, as in "laser+qk_norm+alibi" or
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
  std::string text;  ///< as given by the user: "softcap=30"
};

/// A parsed name, from parse_attention.
struct AttentionName {
  std::vector<PartChoice> parts;  ///< in the order in which they run: by stage, then by rank
  /// The parts joined by + in that order, so that all names of one mechanism have the same text.
  /// "standard" if there are no parts.
  std::string text() const;
};

/// Parses the name: scaled dot-product attention ("standard") with the parts that are named.
/// Errors: an unknown part (the message suggests the nearest known one); options that are missing,
/// unknown or out of range; a part that is given twice; two parts for a stage that accepts only
/// one.
AttentionName parse_attention(const std::string& name);
/// Makes the attention of that name.
std::unique_ptr<Attention> make_attention(const std::string& name, const AttentionSizes& sizes);
/// True if a part of the name makes the scores depend on positions, so that a model adds no
/// position embedding.
bool brings_positions(const AttentionName& name, const AttentionSizes& sizes);
/// Checks that the mixer `base` accepts the stages of all parts. Errors name the part.
void check_stages(const std::string& base, const AttentionName& parts, const std::vector<Stage>& accepted);
/// A help text: the parts that parse_attention knows, one per line with a description.
std::string attention_parts();

/// A word that a name may contain besides parts.
struct KnownName {
  std::string name, help;
};
/// The parts of the name `whole`, from its `pieces` that are not a base. Errors list `bases` among
/// the known words.
AttentionName parse_parts(const std::vector<std::string>& pieces, const std::string& whole,
                          const std::vector<KnownName>& bases);
/// The values of the options in a piece of a name, such as "rotary=theta=500000:share=0.5"; an
/// option that is not given has its initial value. Errors: options that are missing, unknown or out
/// of range; a value where there are no options.
PartValues option_values(const std::string& piece, const std::vector<PartOption>& options);
/// The lines of such a help text for one name: a line per option follows if there are several.
std::string help_lines(const std::string& name, const std::string& help, const std::string& source,
                       const std::vector<PartOption>& options);

}  // namespace vitrine::nn
