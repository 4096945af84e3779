#include "core/gradcheck/check_tape.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <ostream>

#include "core/creation.h"
#include "core/gradcheck/parts.h"
#include "core/gradcheck/replay.h"
#include "core/parallel.h"

namespace vitrine {
namespace {

using namespace gradients;

/// A node to check, and the results of its backward.
struct Job {
  NodeCheck& result;
  const NodeForward& forward;
  std::vector<bool> tracked;    ///< by input
  std::vector<double> weights;  ///< the cotangents of all floating outputs, concatenated
  std::vector<Tensor> dx;       ///< undefined if not tracked
  std::string failure;          ///< the error that the backward threw; may be empty
};

void decide(NodeCheck& node, NodeVerdict verdict, Cause cause, std::string explanation) {
  node.verdict = verdict;
  node.cause = cause;
  node.explanation = std::move(explanation);
}

/// The largest ε of the floating tensors that a node reads or writes.
double largest_epsilon(const KernelProgram& program) {
  double result = epsilon(DType::float64);
  for (const auto* tensors : {&program.inputs, &program.outputs})
    for (const Tensor& x : *tensors)
      if (x.defined() && is_floating(x.dtype())) result = std::max(result, epsilon(x.dtype()));
  return result;
}

GradientCheckOptions node_options(const CheckTapeOptions& options, const KernelProgram& program) {
  constexpr double kRoundings = 1000, kCoarsest = 0.1;
  const double eps = largest_epsilon(program);
  const double coarse = eps > epsilon(DType::float64) ? std::min(kRoundings * eps, kCoarsest) : 0;
  GradientCheckOptions result;
  result.duals = options.duals ? Duals::where_possible : Duals::no;
  result.tolerance = std::max(options.tolerance, coarse);
  result.dual_tolerance = std::max(options.dual_tolerance, coarse);
  result.floor = options.floor;
  result.seed = options.seed;
  return result;
}

/// Whether the kernels give the recorded values. They run twice, because some kernels add to their
/// output's old contents.
bool repeats(Replay& replay, Replay::Way way, const std::vector<Tensor>& points, double tolerance) {
  replay.run(way, points);
  return distance(replay.run(way, points).values(), replay.recorded(), 1) <= tolerance;
}

/// Why the definition or, without a definition, the op's own kernels cannot run on dual numbers;
/// empty if they can.
std::string refuses(Replay& replay, Replay::Way way, const Problem& p) {
  const std::string reason = replay.refusal(way);
  if (!reason.empty()) return reason;
  try {
    std::vector<Tensor> xs;
    for (const Tensor& x : p.inputs) xs.push_back(copy_as(x, DType::dual64));
    if (!repeats(replay, way, xs, p.options.tolerance)) return "on dual numbers it gives other values";
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

/// Notes the error and limit of the comparison whose error is largest relative to its limit.
void note_errors(NodeCheck& node, const GradientCheckOptions& options) {
  const auto note = [&](double error, double limit) {
    if (error < 0 || (node.error >= 0 && !(error / limit > node.error / node.limit))) return;
    node.error = error;
    node.limit = limit;
  };
  for (const auto& input : node.report.inputs) {
    note(input.difference_error, std::max(options.tolerance, input.limit));
    note(input.dual_error, options.dual_tolerance);
  }
}

/// Compares all variables of a node whose forward can run in this way.
void compare(Job& job, Replay& replay, Replay::Way way, GradientCheckOptions options) {
  NodeCheck& node = job.result;
  std::vector<Tensor> points;
  std::vector<std::string> names;
  for (const auto& v : replay.variables()) {
    points.push_back(v.point);
    names.push_back(v.name);
    node.report.inputs.push_back({.name = v.name, .what = fmt::format("{}", v.point.shape())});
  }
  if (!repeats(replay, way, points, options.tolerance))
    return decide(node, NodeVerdict::not_checked, Cause::random,
                  "its kernels give other values when they run again");
  const Replay::Way exact =
      job.forward.definition.outputs.empty() ? Replay::Way::op : Replay::Way::definition;
  const Function f = [&](const std::vector<Tensor>& xs) {
    return replay.run(xs[0].dtype() == DType::dual64 ? exact : way, xs);
  };
  Problem p{f,
            points,
            names,
            options,
            Probe::directions,
            f(points),
            std::move(job.weights),
            {},
            {},
            std::vector<std::string>(points.size()),
            {},
            {},
            {}};
  for (const auto& v : replay.variables()) p.gradients.push_back(replay.gradient(v, job.dx));
  if (options.duals != Duals::no) node.report.dual_note = refuses(replay, exact, p);
  if (!node.report.dual_note.empty()) options.duals = Duals::no;
  check_first_order(p, node.report);
  node.report.method = describe_probe(p, 0);
  note_errors(node, options);
  if (node.report.passed) return;
  const bool kink = node.report.cause == Cause::kink;
  decide(node, kink ? NodeVerdict::undecided : NodeVerdict::wrong, node.report.cause,
         node.report.explanation);
}

void check_node(Job& job, const CheckTapeOptions& options) {
  NodeCheck& node = job.result;
  if (!job.failure.empty()) {
    const Diagnosis d = diagnose_failure(job.failure);
    return decide(node, NodeVerdict::wrong, d.cause, d.explanation);
  }
  Replay replay(job.forward, job.tracked);
  const std::string reason = replay.refusal(Replay::Way::op);
  const bool defined = !reason.empty() && replay.refusal(Replay::Way::definition).empty();
  if (!reason.empty() && !defined) return decide(node, NodeVerdict::not_checked, Cause::none, reason);
  try {
    compare(job, replay, defined ? Replay::Way::definition : Replay::Way::op,
            node_options(options, job.forward.op));
  } catch (const std::exception& e) {
    decide(node, NodeVerdict::not_checked, Cause::failed, fmt::format("its kernels failed: {}", e.what()));
  }
}

bool has_infinity(const Tensor& x) {
  if (!x.defined() || !is_floating(x.dtype())) return false;
  const auto values = x.values();
  return std::any_of(values.begin(), values.end(), [](double value) { return std::isinf(value); });
}

/// Runs the backward of a node. Returns nothing if the node has nothing to check.
std::optional<Job> prepare(Tape& tape, NodeCheck& node, const CheckTapeOptions& options) {
  const NodeForward* const forward = tape.forward_of(node.index);
  if (forward == nullptr) {
    decide(node, NodeVerdict::cut, Cause::none, "gradients end here");
    return std::nullopt;
  }
  const auto info = tape.info(node.index);
  Job job{node, *forward, {}, {}, {}, {}};
  for (const int32_t slot : info.input_slots) job.tracked.push_back(slot >= 0);
  const auto& inputs = forward->op.inputs;
  const bool reads_infinity = std::any_of(inputs.begin(), inputs.end(), has_infinity);
  std::vector<Tensor> dy;
  for (size_t i = 0; i < forward->op.outputs.size(); ++i) {
    const Tensor& y = forward->op.outputs[i];
    if (!is_floating(y.dtype())) {
      dy.emplace_back();
      continue;
    }
    // Rounded to y's dtype, because the differences are weighted with the values that the backward
    // gets.
    const Tensor c = tensor(random_direction(y, options.seed + 1000 * node.index + i), y.shape(), y.dtype());
    // An output that is infinite, such as the score of a hidden key, is a constant, so the
    // differences leave it out. Where the op itself hides it, the backward gets its cotangent,
    // which must not come back. Where it comes from an infinite input, nothing can be compared.
    auto weights = c.values();
    const auto at = y.values();
    for (size_t e = 0; e < weights.size(); ++e)
      if (std::isinf(at[e])) weights[e] = 0;
    dy.push_back(copy_to(reads_infinity ? tensor(weights, y.shape(), y.dtype()) : c, y.device()));
    job.weights.insert(job.weights.end(), weights.begin(), weights.end());
  }
  try {
    job.dx = tape.pull_back(node.index, dy);
  } catch (const std::exception& e) {
    job.failure = e.what();
  }
  return job;
}

}  // namespace

TapeCheck check_tape(Tape& tape, const CheckTapeOptions& options) {
  check(tape.options().checkable,
        "check_tape: the tape does not keep how its nodes were computed; record it with "
        "Tape({{.checkable = true}})");
  const Tape::Pause pause;
  const KernelTrace::Stop stop;
  TapeCheck result;
  for (size_t i = 0; i < tape.size(); ++i) {
    const auto info = tape.info(i);
    check(!info.used,
          "check_tape: a backward pass has consumed the tape; check it before that pass, or give that pass "
          "Keep::yes");
    result.nodes.push_back({.index = i, .op = info.op, .module = info.module});
  }
  // Backwards run on this thread, one at a time, because they may share state such as a generator.
  // The kernels of a replay share nothing.
  std::vector<Job> jobs;
  for (NodeCheck& node : result.nodes)
    if (std::optional<Job> job = prepare(tape, node, options)) jobs.push_back(std::move(*job));
  parallel_for(0, static_cast<int64_t>(jobs.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) check_node(jobs[static_cast<size_t>(i)], options);
  });
  return result;
}

std::string_view name(NodeVerdict verdict) {
  switch (verdict) {
    case NodeVerdict::right: return "right";
    case NodeVerdict::wrong: return "WRONG";
    case NodeVerdict::undecided: return "UNDECIDED";
    case NodeVerdict::cut: return "cut";
    case NodeVerdict::not_checked: return "not checked";
  }
  return "?";
}

const NodeCheck* TapeCheck::first_wrong() const {
  const auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [](const NodeCheck& n) { return n.verdict == NodeVerdict::wrong; });
  return found == nodes.end() ? nullptr : &*found;
}

size_t TapeCheck::count(NodeVerdict verdict) const {
  return static_cast<size_t>(
      std::count_if(nodes.begin(), nodes.end(), [&](const NodeCheck& n) { return n.verdict == verdict; }));
}

std::string to_string(const TapeCheck& result) {
  std::string text =
      fmt::format("check of {} nodes: {} right", result.nodes.size(), result.count(NodeVerdict::right));
  for (const auto verdict :
       {NodeVerdict::wrong, NodeVerdict::undecided, NodeVerdict::cut, NodeVerdict::not_checked})
    if (const size_t count = result.count(verdict); count > 0)
      text += fmt::format(", {} {}", count, name(verdict));
  text += '\n';
  const auto place = [](const NodeCheck& n) {
    return fmt::format("op {} {}{}{}", n.index, n.op, n.module.empty() ? "" : " in ", n.module);
  };
  if (const NodeCheck* wrong = result.first_wrong())
    text += fmt::format("first wrong: {}; likely cause: {}: {}\n", place(*wrong), name(wrong->cause),
                        wrong->explanation);
  size_t width = 0;
  for (const NodeCheck& n : result.nodes) width = std::max(width, place(n).size());
  for (const NodeCheck& n : result.nodes) {
    text += fmt::format("  {:<{}}  {:<11}", place(n), width, name(n.verdict));
    if (n.error >= 0) text += fmt::format("  error {:.1e}, limit {:.0e}", n.error, n.limit);
    if (!n.explanation.empty()) text += "  " + n.explanation;
    text += '\n';
  }
  return text;
}

std::ostream& operator<<(std::ostream& out, const TapeCheck& result) { return out << to_string(result); }

}  // namespace vitrine
