#include "nn/training/inspect_parts.h"

#include <algorithm>
#include <cmath>

#include "core/tape.h"
#include "ops/view.h"

namespace vitrine::nn::training {
namespace {

/// A table of no rows yet, with columns 1, 2, ….
report::ShadedTable numbered(report::ShadedTable table, int64_t columns) {
  for (int64_t i = 1; i <= columns; ++i) table.columns.push_back(std::to_string(i));
  return table;
}

report::ShadedTable table_of(const std::vector<Routing>& routing, const ExpertOptions& experts) {
  report::ShadedTable table = numbered(
      {.title = "Load of the experts",
       .explanation =
           "The share of the choices of the tokens of a held-out batch that each expert gets. \"no place\": "
           "the share that a full expert would refuse in training.",
       .row_title = "layer",
       .column_title = "expert"},
      experts.count);
  table.columns.emplace_back("no place");
  for (const Routing& layer : routing) {
    const std::vector<double> chosen = layer.experts.values();
    const auto choices = static_cast<double>(chosen.size());
    const double places = std::ceil(experts.capacity_factor * (choices / static_cast<double>(experts.count)));
    std::vector<double> loads(static_cast<size_t>(experts.count), 0);
    for (const double expert : chosen) ++loads[static_cast<size_t>(expert)];
    double lost = 0;
    for (const double load : loads) {
      table.values.push_back(load / choices);
      if (experts.capacity_factor > 0) lost += std::max(load - places, 0.0);
    }
    table.values.push_back(lost / choices);
    table.rows.push_back(std::to_string(table.rows.size() + 1));
  }
  return table;
}

report::ShadedTable table_of(const Tensor& steps) {
  const Tensor first = slice(steps, 0, 0, std::min<int64_t>(8, steps.size(0)));
  report::ShadedTable table =
      numbered({.title = "Steps until a position halts",
                .explanation = "A row is a held-out sequence. The strongest shade is the most steps.",
                .row_title = "sequence",
                .column_title = "position",
                .is_picture = true},
               first.size(1));
  for (int64_t i = 1; i <= first.size(0); ++i) table.rows.push_back(std::to_string(i));
  table.values = first.values();
  return table;
}

}  // namespace

void inspect_parts(Gpt& model, const Tensor& ids, report::RunRecord& record) {
  if (model.options().experts.count == 0 && !model.options().universal) return;
  const Tape::Pause pause;
  std::vector<Routing> routing;
  Halted halted;
  const ModeScope evaluation(model, false);
  model.forward(to(ids, model.tokens.weight.value().device()), {.routing = &routing, .halted = &halted});
  if (!routing.empty()) record.tables.push_back(table_of(routing, model.options().experts));
  if (halted.steps.defined()) record.tables.push_back(table_of(halted.steps));
}

}  // namespace vitrine::nn::training
