// The options of a made-up run, for tests of readers of configuration files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nn/options.h"

namespace vitrine::test {

struct ConfigSettings {
  std::string name = "a";
  int64_t steps = 3;
  double rate = 0.1;
  bool quiet = false;
  std::vector<std::string> runs;

  void list(nn::OptionList& o) {
    o.group("Run");
    o("name", name, "of the run");
    o("runs", runs, "to compare");
    o("steps", steps, "of training").at_least(1);
    o("rate", rate, "of learning");
    o("quiet", quiet, "prints nothing");
  }
};

}  // namespace vitrine::test
