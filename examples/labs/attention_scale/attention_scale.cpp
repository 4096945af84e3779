// A lab on the scale of attention: what Su (2023), "The scale operation of attention from the
// perspective of gradient maximization", claims, and what can be seen. docs/scale.md explains it.
//
//   attention_scale [PAGE.html [CURVES.csv]]
#include "examples/labs/attention_scale/sections.h"
#include "examples/labs/lab.h"

using namespace vitrine;

namespace {

labs::Lab make() {
  return {
      .page = {.title = "The scale of attention",
               .subtitle = "The claims of Su (2023), and what Vitrine computes. All numbers are of this run.",
               .sections = {labs::variance_section(), labs::objective_section(), labs::normal_section(),
                            labs::cosine_section(), labs::decoder_section(), labs::entropy_section(),
                            labs::sinusoidal_section()}},
      .picture = labs::objective_chart()};
}

}  // namespace

int main(int argc, char** argv) { return labs::run("attention_scale", argc, argv, make); }
