#include "tests/spec/scan_rows.h"

#include "ops/join.h"
#include "ops/linear_scan.h"
#include "ops/selective_scan.h"
#include "ops/view.h"
#include "ops/wkv.h"

namespace vitrine::spec {
namespace {

using Xs = const std::vector<Tensor>&;

/// All outputs as one vector.
template <class States>
Tensor joined(const States& s) {
  std::vector<Tensor> all;
  for (const Tensor& x : s.tensors()) all.push_back(flatten(cast(x, s.tensors()[0].dtype())));
  return concat(all, 0);
}

/// q, k, v, then, as far as the row has them and in the order in which they are recorded: a first
/// state, log decays of shape `decays` (size 0 in place of T), erase_to and erase_from.
Spec linear_row(bool state, const Shape& decays = {}, bool erases = false) {
  Spec row;
  row.name = "linear_scan";
  row.call = [=](Xs x) {
    LinearScanOptions o{.scale = 0.7};
    if (state) o.state = x[3];
    if (decays.rank() > 0) o.log_decay = x[4];
    if (erases) o.erase_to = x[5], o.erase_from = x[6];
    return joined(linear_scan(x[0], x[1], x[2], o));
  };
  for (const auto& [time, dv] : {std::pair{5, 4}, std::pair{1, 1}, std::pair{0, 2}}) {
    const Shape vectors{2, 2, time, 3};
    std::vector<Input> inputs = {{vectors}, {vectors}, {{2, 2, time, dv}}};
    if (state) inputs.push_back({{2, 2, 3, dv}});
    Shape shape = decays;
    if (shape.rank() > 0 && shape[2] == 0) shape[2] = time;
    if (shape.rank() > 0) inputs.push_back({shape, -2, 0.2});
    if (erases) inputs.push_back({vectors, -0.6, 0.6}), inputs.push_back({vectors, -0.6, 0.6});
    row.samples.push_back(inputs);
  }
  if (decays.rank() > 0) {
    row.float32_units = 64;
    row.reason = "the gradient of a decay is a sum over the state, whose terms of either sign cancel";
  }
  return row;
}

}  // namespace

std::vector<Spec> scan_rows() {
  // A scan that erases without decay is in tests/ops/linear_scan_test.cpp: the gradients of a row
  // have the numbers of its inputs.
  std::vector<Spec> rows = {linear_row(false),
                            linear_row(true, {2, 2, 0}),
                            linear_row(true, {1, 2, 1}),
                            linear_row(true, {2, 2, 0, 3}),
                            linear_row(true, {2, 2, 0}, true),
                            linear_row(true, {2, 2, 0, 3}, true)};
  for (const bool skip : {true, false})
    rows.push_back({"selective_scan",
                    [skip](Xs x) {
                      return joined(
                          selective_scan(x[0], x[1], x[2], x[3], x[4],
                                         {.skip = skip ? x[5] : Tensor(), .state = skip ? x[6] : Tensor()}));
                    },
                    {{{{2, 4, 3}},
                      {{2, 4, 3}, 0.1, 1},
                      {{3, 2}, -2, -0.2},
                      {{2, 4, 2}},
                      {{2, 4, 2}},
                      {{3}},
                      {{2, 3, 2}}},
                     {{{1, 1, 5}},
                      {{1, 1, 5}, 0.1, 1},
                      {{5, 3}, -2, -0.2},
                      {{1, 1, 3}},
                      {{1, 1, 3}},
                      {{5}},
                      {{1, 5, 3}}},
                     {{{2, 0, 3}},
                      {{2, 0, 3}, 0.1, 1},
                      {{3, 2}, -2, -0.2},
                      {{2, 0, 2}},
                      {{2, 0, 2}},
                      {{3}},
                      {{2, 3, 2}}}}});
  for (auto& sample : rows.back().samples) sample.resize(5);
  for (const bool continued : {true, false}) {
    rows.push_back({"wkv",
                    [continued](Xs x) {
                      WkvState state;
                      if (continued) state = {x[4], x[5]};
                      return joined(wkv(x[0], x[1], x[2], x[3], state));
                    },
                    {{{{2, 4, 3}}, {{2, 4, 3}}, {{3}, -2, 0}, {{3}}, {{2, 3}}, {{2, 3}}},
                     {{{1, 1, 5}}, {{1, 1, 5}}, {{5}, -2, 0}, {{5}}, {{1, 5}}, {{1, 5}}}}});
    rows.back().float32_units = 32;
    rows.back().reason =
        "gradients of decay and bonus are sums over positions, whose terms of either sign cancel";
    if (!continued)
      for (auto& sample : rows.back().samples) sample.resize(4);
  }
  return rows;
}

}  // namespace vitrine::spec
