// The attention parts of the library, alone and combined, for tests of attention and of models.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "nn/attention/part.h"
#include "nn/transformer/mixers.h"

namespace vitrine::test {

/// The name of a row alone, with the value 2 for each option that requires a value. Patterns get
/// values with which they hide keys from the few positions of the checks.
template <class Row>
std::string name_of(const Row& row) {
  std::string name = row.name;
  if (name == "global") return "global=window=1";
  if (name == "strided") return "strided=stride=3";
  if (name == "fixed") return "fixed=stride=3";
  if (name == "blocks") return "blocks=size=1";
  for (const nn::PartOption& option : row.options)
    if (option.initial.empty() && !option.optional)
      name += (name == row.name ? "=" : ":") + option.name + "=2";
  return name;
}

/// One name per row of the table, and some names with several parts and other values.
inline std::vector<std::string> mechanisms() {
  std::vector<std::string> names = {"standard"};
  for (const nn::AttentionPartRow* row : nn::attention_part_table(false)) names.push_back(name_of(*row));
  for (const char* name :
       {"optimal=32", "optimal=visible", "cosine=visible", "scale=0.3", "rotary=interleaved:theta=500",
        "rotary=share=0.5", "dilated=1:2", "global=tokens=1:window=1", "strided=3", "fixed=stride=3",
        "laser+qk_norm+alibi", "laser+cosine+rotary+temperature", "laser+softcap=3+entropy",
        "laser+entropy=visible+alibi", "laser+entmax+t5"})
    names.push_back(name);
  return names;
}

/// Freezes the parameters of parts whose gradients are estimates, which differences do not confirm.
inline void freeze_estimates(nn::Module& module) {
  module.apply([](const std::string&, nn::Module& m) {
    const auto* const part = dynamic_cast<const nn::AttentionPart*>(&m);
    if (part == nullptr || !part->traits().estimated) return;
    for (Parameter& p : m.parameters()) p.requires_grad(false);
  });
}

/// Two rows of the tables: two parts, or a base with a part.
inline std::vector<std::string> pairs_of_rows() {
  std::vector<std::string> names, pairs;
  for (const nn::MixerRow* row : nn::mixer_table(false))
    if (row->name != "standard") names.push_back(name_of(*row));
  const size_t bases = names.size();
  for (const nn::AttentionPartRow* row : nn::attention_part_table(false)) names.push_back(name_of(*row));
  for (size_t i = 0; i < names.size(); ++i)
    for (size_t j = std::max(i + 1, bases); j < names.size(); ++j) pairs.push_back(names[i] + "+" + names[j]);
  return pairs;
}

/// The causal mixers of the table other than standard attention, and some names with parts and
/// options.
inline std::vector<std::string> other_mixers() {
  std::vector<std::string> names;
  for (const nn::MixerRow* row : nn::mixer_table(false))
    if (row->causal && row->name != "standard") names.push_back(row->name);
  for (const char* name : {"differential+laser+rotary", "linear+laser+qk_norm", "performer=5+laser+rotary",
                           "retention=100", "gated_linear=2", "delta=gated"})
    names.push_back(name);
  return names;
}

}  // namespace vitrine::test
