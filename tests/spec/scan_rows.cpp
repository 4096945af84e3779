#include "tests/spec/scan_rows.h"

#include "ops/join.h"
#include "ops/linear_scan.h"
#include "ops/selective_scan.h"
#include "ops/view.h"

namespace vitrine::spec {
namespace {

using Xs = const std::vector<Tensor>&;

/// Both outputs as one vector.
template <class States>
Tensor joined(const States& s) {
  const auto all = s.tensors();
  return concat({flatten(all[0]), flatten(cast(all[1], all[0].dtype()))}, 0);
}

/// q, k, v, then what `more` has, in this order: log decays of shape `decays`, erase_to and
/// erase_from, a first state.
Spec linear_row(const Shape& decays, bool erases, bool state) {
  Spec row;
  row.name = "linear_scan";
  row.call = [=](Xs x) {
    LinearScanOptions o;
    size_t next = 3;
    if (decays.rank() > 0) o.log_decay = x[next++];
    if (erases) o.erase_to = x[next++], o.erase_from = x[next++];
    if (state) o.state = x[next++];
    o.scale = 0.7;
    return joined(linear_scan(x[0], x[1], x[2], o));
  };
  for (const auto& [time, dv] : {std::pair{5, 4}, std::pair{1, 1}, std::pair{0, 2}}) {
    const Shape vectors{2, 2, time, 3};
    std::vector<Input> inputs = {{vectors}, {vectors}, {{2, 2, time, dv}}};
    if (decays.rank() > 0) {
      Shape shape = decays;
      if (shape[2] != 1) shape[2] = time;
      inputs.push_back({shape, -2, 0.2});
    }
    if (erases) inputs.push_back({vectors, -0.6, 0.6}), inputs.push_back({vectors, -0.6, 0.6});
    if (state) inputs.push_back({{2, 2, 3, dv}});
    row.samples.push_back(inputs);
  }
  return row;
}

}  // namespace

std::vector<Spec> scan_rows() {
  std::vector<Spec> rows = {linear_row({}, false, false),        linear_row({2, 2, 0}, false, false),
                            linear_row({1, 2, 1}, false, true),  linear_row({2, 2, 0, 3}, false, false),
                            linear_row({}, true, true),          linear_row({2, 2, 0}, true, false),
                            linear_row({2, 2, 0, 3}, true, true)};
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
  return rows;
}

}  // namespace vitrine::spec
