#include "bench/measure/contest.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>

#include "bench/measure/clock.h"
#include "bench/measure/process.h"
#include "core/parallel.h"

namespace vitrine::bench {

std::vector<Size> Contest::sizes() const {
  std::vector<Size> all = only.empty() ? bench::sizes() : std::vector<Size>{bench::size(only)};
  for (Size& s : all) {
    s.model.mixer = mixer;
    if (time == 0) continue;
    s.steps = static_cast<int>(std::max<int64_t>(5, s.steps * s.batch * s.time / time));
    s.batch = 1, s.time = s.model.context = time;
  }
  return all;
}

Contest parse_contest(const std::string& title, int argc, char** argv) {
  CLI::App app(title);
  Contest contest;
  int count = 2;
  app.add_option("--size", contest.only, "Only this size")->check(CLI::IsMember({"a", "b", "c"}));
  app.add_option("--time", contest.time, "One sequence of this length in place of the size's batch")
      ->check(CLI::PositiveNumber);
  app.add_option("--rounds", contest.rounds, "Processes of each contender, in turn")->capture_default_str();
  std::string dtype = "float32";
  app.add_option("--dtype", dtype, "What training computes in: float32 or bfloat16")
      ->check(CLI::IsMember({"float32", "bfloat16"}))
      ->capture_default_str();
  CLI::Option* const process = app.add_flag("--process", contest.process,
                                            "Run here and print the figures as JSON: what the rounds start");
  std::string gradients = "float32", moments = "float32";
  app.add_option("--gradients", gradients, "With --process and bfloat16: the dtype of gradients")
      ->needs(process)
      ->check(CLI::IsMember({"float32", "bfloat16"}))
      ->capture_default_str();
  app.add_option("--moments", moments, "With --process: the dtype of AdamW's moments")
      ->needs(process)
      ->check(CLI::IsMember({"float32", "bfloat16"}))
      ->capture_default_str();
  app.add_option("--mixer", contest.mixer, "With --process: the attention or mixer")
      ->needs(process)
      ->capture_default_str();
  app.add_option("--clip", contest.clip, "With --process: the maximum norm of gradients; 0: no clipping")
      ->needs(process);
  app.add_option("--threads", count, "Threads of both")->capture_default_str();
  std::string isa;
  app.add_option("--isa", isa, "Both use no more than this instruction set")->check(CLI::IsMember({"avx2"}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    std::exit(app.exit(e));
  }
  set_threads(count);
  // The names under which both contenders' processes look for a limit
  if (!isa.empty())
    for (const char* variable : {"VITRINE_ISA", "ATEN_CPU_CAPABILITY"}) setenv(variable, isa.c_str(), 1);
  if (!isa.empty())
    for (const char* variable : {"ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS"})
      setenv(variable, "AVX2", 1);
  if (!contest.process) pytorch("gpt.py");  // prints its version before the tables
  contest.precision = {dtype_of(dtype), dtype_of(gradients), dtype_of(moments)};
  return contest;
}

std::vector<Contender> contenders(const Contest& contest, const Size& size, const std::string& task) {
  const std::string dtype(name(contest.precision.dtype));
  const std::string length = contest.time > 0 ? fmt::format(" --time {}", contest.time) : "";
  std::vector<Contender> all = {
      {"Vitrine", fmt::format("{} --process --size {} --threads {} --dtype {}{}", this_program(), size.name,
                              threads(), dtype, length)}};
  if (const std::string peer = pytorch("gpt.py"); !peer.empty()) {
    const std::string command = fmt::format("{} {} --dtype {} {}", peer, task, dtype, arguments(size));
    all.push_back({"eager", command});
    if (task == "train") all.push_back({"compiled", command + " --compiled"});
  }
  return all;
}

void run(const Contest& contest, std::vector<Contender>& contenders) {
  for (int round = 0; round < contest.rounds; ++round)
    for (Contender& c : contenders) c.runs.push_back(run_for_json(c.command));
}

const Contender* best_peer(const std::vector<Contender>& contenders) {
  const Contender* best = nullptr;
  for (size_t i = 1; i < contenders.size(); ++i)
    if (best == nullptr || median(seconds_of(contenders[i].runs)) < median(seconds_of(best->runs)))
      best = &contenders[i];
  return best;
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
