// A lab on LASER (Duvvuri and Dhillon 2024): what the paper claims, and what can be seen: where its
// gradient is larger, where the published form fails, and what it costs. docs/laser.md explains it.
//
//   laser [PAGE.html [CURVES.csv]]
#include "examples/labs/lab.h"
#include "examples/labs/laser/sections.h"

using namespace vitrine;

namespace {

labs::Lab make() {
  return {
      .page = {.title = "LASER",
               .subtitle = "The claims of Duvvuri and Dhillon (2024), and what Vitrine computes. All numbers "
                           "are of this run, except those that are quoted as claims.",
               .sections = {labs::two_keys_section(), labs::bounds_section(), labs::maximum_section(),
                            labs::precision_section(), labs::trick_section(), labs::weights_section(),
                            labs::cost_section()}},
      .picture = labs::two_keys_chart()};
}

}  // namespace

int main(int argc, char** argv) { return labs::run("laser", argc, argv, make); }
