// The attention parts of the library, alone and combined, for tests of attention and of models.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "nn/attention/part.h"
#include "nn/transformer/mixers.h"

namespace vitrine::test {

/// One name per row of the table (with the value 2 if the row needs a value), and some names with
/// several parts and other values.
inline std::vector<std::string> mechanisms() {
  std::vector<std::string> names = {"standard"};
  for (const nn::AttentionPartRow* row : nn::attention_part_table(false)) {
    const bool needs_value = std::any_of(row->options.begin(), row->options.end(), [](const auto& option) {
      return option.initial.empty() && !option.optional;
    });
    names.push_back(row->name + (needs_value ? "=2" : ""));
  }
  for (const char* name :
       {"optimal=32", "optimal=visible", "cosine=visible", "scale=0.3", "rotary=interleaved:theta=500",
        "rotary=share=0.5", "dilated=1:2", "global=tokens=1:window=1", "strided=3", "fixed=stride=3",
        "laser+qk_norm+alibi", "laser+cosine+rotary+temperature", "laser+softcap=3+entropy",
        "laser+entropy=visible+alibi"})
    names.push_back(name);
  return names;
}

/// The causal mixers of the table besides standard attention, some with parts and options.
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
