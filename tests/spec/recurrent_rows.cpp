#include "tests/spec/recurrent_rows.h"

#include "core/creation.h"
#include "ops/join.h"
#include "ops/recurrent.h"
#include "ops/view.h"

namespace vitrine::spec {

using Xs = const std::vector<Tensor>&;

/// Both outputs of lstm and the output of gru: forward, reverse, with lengths, and with and without
/// initial states.
std::vector<Spec> recurrent_rows() {
  const auto options = [](bool lengths, bool reverse, Device device) {
    RecurrentOptions o;
    o.reverse = reverse;
    if (lengths) o.lengths = index_tensor(std::vector<int64_t>{3, 0, 4}, {3}, device);
    return o;
  };
  std::vector<Spec> rows;
  const std::vector<std::vector<Input>> lstm_samples = {{{{3, 4, 12}}, {{12, 3}}, {{3, 3}}, {{3, 3}}},
                                                        {{{3, 0, 8}}, {{8, 2}}, {{3, 2}}, {{3, 2}}}};
  const std::vector<std::vector<Input>> gru_samples = {{{{3, 4, 9}}, {{9, 3}}, {{3}}, {{3, 3}}},
                                                       {{{3, 0, 6}}, {{6, 2}}, {{2}}, {{3, 2}}}};
  for (const bool lengths : {false, true})
    for (const bool reverse : {false, true}) {
      rows.push_back({"lstm",
                      [=](Xs x) {
                        const LstmStates s =
                            lstm(x[0], x[1], x[2], x[3], options(lengths, reverse, x[0].device()));
                        return concat({s.h, cast(s.c, s.h.dtype())}, -1);
                      },
                      lstm_samples});
      rows.push_back(
          {"gru", [=](Xs x) { return gru(x[0], x[1], x[2], x[3], options(lengths, reverse, x[0].device())); },
           gru_samples});
    }
  rows.push_back({"lstm", [](Xs x) { return lstm(x[0], x[1]).h; }, {{{{2, 3, 76}}, {{76, 19}}}}});
  rows.push_back({"gru", [](Xs x) { return gru(x[0], x[1]); }, {{{{2, 3, 57}}, {{57, 19}}}}});
  for (Spec& row : rows) {
    // Each state is rounded for the product with the next one, and the gradients are rounded in the
    // same way.
    row.bfloat16_units = row.float16_units = 4, row.float32_units = 16;
    row.reason = "states are rounded at each position, and the errors of all positions add up";
  }
  return rows;
}

}  // namespace vitrine::spec
