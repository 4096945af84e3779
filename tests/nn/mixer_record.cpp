// The record of a run of the checks of mixers, from which .ci/cards writes the proof cards.
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/nn/mechanisms.h"
#include "tests/nn/mixer_checks.h"
#include "tests/nn/modules.h"

namespace vitrine::test {
namespace {

void write(const nlohmann::json& line) {
  if (const char* const path = std::getenv("VITRINE_FINDINGS"); path != nullptr)
    std::ofstream(path, std::ios::app) << line << '\n';
}

template <class Row>
void write_row(const Row& row, const char* kind) {
  nlohmann::json options = nlohmann::json::object();
  for (const nn::PartOption& option : row.options)
    options[option.name] = option.help + (option.initial.empty() ? "" : "; by default " + option.initial);
  write({{"subject", name_of(row)},
         {"name", row.name},
         {"kind", kind},
         {"help", row.help},
         {"formula", row.formula},
         {"source", row.source},
         {"options", options}});
}

}  // namespace

void record(const std::string& subject, const std::vector<Finding>& findings) {
  for (const Finding& f : findings)
    write({{"subject", subject},
           {"check", f.check},
           {"error", f.error},
           {"limit", f.limit},
           {"note", f.note},
           {"refused", f.refused},
           {"failure", f.failure}});
}

void record_rows() {
  for (const nn::MixerRow* row : nn::mixer_table(false))
    write_row(*row, row->make ? "mixer" : "base of attention");
  for (const nn::AttentionPartRow* row : nn::attention_part_table(false))
    write_row(*row, "part of attention");
  for (const ModuleRow& row : module_rows()) write_row(row, "module");
}

}  // namespace vitrine::test
