// A mistake planted in any backward makes the checks fail: sign flipped, scaled by 1.01, one input's gradient zeroed.
#include <doctest/doctest.h>

#include <set>

#include "tests/spec/spec.h"

using namespace vitrine;

TEST_CASE("each backward with a planted mistake fails its row") {
  for (const auto& row : spec::rows()) {
    size_t planted = 0;
    const auto caught = [&](size_t input, double factor) {
      for (size_t sample = 0; sample < row.samples.size(); ++sample) {
        if (numel(row.samples[sample][input].shape) == 0)
          continue;  // a gradient without elements has no mistakes
        const auto error = spec::check_differences(row, sample, [&](Tape& tape) {
          tape.filter_gradients([&](const char* op, Grads& grads) {
            if (row.name != op || input >= grads.size() || !grads[input].defined()) return;
            grads[input] = grads[input].scaled(factor);
            ++planted;
          });
        });
        if (!error.empty()) return true;
      }
      return planted == 0;  // a composite: the ops that it is made of have rows of their own
    };
    for (size_t input = 0; input < row.samples[0].size(); ++input)
      for (double factor : {-1.0, 1.01, 0.0}) {
        planted = 0;
        CHECK_MESSAGE(caught(input, factor),
                      fmt::format("{}: gradient {} times {} was not noticed", row.name, input, factor));
      }
  }
}
