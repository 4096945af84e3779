// The report of a gradient check, in words.
#include <algorithm>
#include <ostream>

#include "core/gradcheck/check_gradients.h"

namespace vitrine {

std::string_view name(Cause cause) {
  switch (cause) {
    case Cause::none: return "none";
    case Cause::sign: return "sign";
    case Cause::factor: return "factor";
    case Cause::transposed: return "transposed";
    case Cause::missing_sum: return "missing sum";
    case Cause::kink: return "kink";
    case Cause::low_precision: return "low precision";
    case Cause::cut: return "cut";
    case Cause::zero: return "zero gradient";
    case Cause::random: return "random function";
    case Cause::not_finite: return "not finite";
    case Cause::failed: return "failed";
    case Cause::unknown: return "unknown";
  }
  return "?";
}

double GradientReport::error() const {
  double largest = 0;
  for (const Input& input : inputs) {
    largest = std::max({largest, input.difference_error, input.dual_error});
    for (double e : input.higher_errors) largest = std::max(largest, e);
  }
  return largest;
}

std::string to_string(const GradientReport& report) {
  // In these cases differences prove nothing, and the gradient may be right.
  const bool undecided =
      report.cause == Cause::kink || report.cause == Cause::low_precision || report.cause == Cause::random;
  const char* const failed = undecided ? "UNDECIDED" : "WRONG";
  std::string text =
      fmt::format("gradient check of {}: {}\n", report.method, report.passed ? "right" : failed);
  size_t width = 0;
  for (const auto& input : report.inputs) width = std::max(width, input.name.size());
  for (const auto& input : report.inputs) {
    text +=
        fmt::format("  {:<{}}  {:<18} {:<9}", input.name, width, input.what, input.passed ? "right" : failed);
    if (input.difference_error >= 0)
      text += fmt::format("  differences {:.1e} (limit {:.0e})", input.difference_error, input.limit);
    if (input.dual_error >= 0) text += fmt::format("  dual numbers {:.1e}", input.dual_error);
    for (size_t i = 0; i < input.higher_errors.size(); ++i)
      text += fmt::format("  derivative {} {:.1e}", i + 2, input.higher_errors[i]);
    if (input.passed && !input.used && (input.difference_error >= 0 || input.dual_error >= 0))
      text += "  (y does not depend on it)";
    text += '\n';
    if (input.passed) continue;
    text +=
        fmt::format("    worst{}{}: the tape says {:.9g}, it should be {:.9g}",
                    input.element == "[]" ? "" : " at " + input.element,
                    input.output.empty() ? "" : " for output " + input.output, input.analytic, input.numeric);
    if (input.uncertainty > 0) text += fmt::format(" (± {:.0e})", input.uncertainty);
    text += '\n';
  }
  if (report.taylor_slope != 0)
    text += fmt::format("  the Taylor remainder falls as h^{:.2f}, wanted 2 or more\n", report.taylor_slope);
  if (!report.dual_note.empty()) text += "  no dual numbers: " + report.dual_note + "\n";
  if (!report.passed) text += fmt::format("  likely cause: {}: {}\n", name(report.cause), report.explanation);
  return text;
}

std::ostream& operator<<(std::ostream& out, const GradientReport& report) { return out << to_string(report); }

}  // namespace vitrine
