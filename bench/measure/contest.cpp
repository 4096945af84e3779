#include "bench/measure/contest.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>

#include "bench/measure/process.h"
#include "core/parallel.h"

namespace vitrine::bench {

std::vector<Size> Contest::sizes() const {
  return only.empty() ? bench::sizes() : std::vector<Size>{bench::size(only)};
}

Contest parse_contest(const std::string& title, int argc, char** argv) {
  CLI::App app(title);
  Contest contest;
  int count = 2;
  app.add_option("--size", contest.only, "Only this size")->check(CLI::IsMember({"a", "b", "c"}));
  app.add_option("--rounds", contest.rounds, "Processes of each contender, in turn")->capture_default_str();
  app.add_option("--threads", count, "Threads of both")->capture_default_str();
  app.add_flag("--process", contest.process, "Run here and print the figures as JSON: what the rounds start");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    std::exit(app.exit(e));
  }
  set_threads(count);
  return contest;
}

Runs run(const Contest& contest, const Size& size, const std::string& task) {
  Runs runs;
  const std::string peer = pytorch("gpt.py");
  for (int round = 0; round < contest.rounds; ++round) {
    runs.ours.push_back(run_for_json(
        fmt::format("{} --process --size {} --threads {}", this_program(), size.name, threads())));
    if (!peer.empty())
      runs.theirs.push_back(run_for_json(fmt::format("{} {} {}", peer, task, arguments(size))));
  }
  return runs;
}

std::vector<double> seconds_of(const std::vector<nlohmann::json>& runs) {
  std::vector<double> all;
  for (const auto& run : runs)
    for (const double x : run["seconds"]) all.push_back(x);
  return all;
}

double largest(const std::vector<nlohmann::json>& runs, const std::string& figure) {
  double result = 0;
  for (const auto& run : runs) result = std::max(result, run[figure].get<double>());
  return result;
}

}  // namespace vitrine::bench
