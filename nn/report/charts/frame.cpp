#include "nn/report/charts/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "nn/report/html.h"

namespace vitrine::nn::report {
namespace {

std::string percent(double place) { return fmt::format("{:.6g}%", std::round(1e5 * place) / 1e3); }

std::string canvas_number(double value) { return fmt::format("{:.6g}", std::round(1e3 * value) / 1e3); }

std::string grid_line(bool upright, double place, const char* css_class) {
  const std::string at = canvas_number(canvas_size * (upright ? place : 1 - place));
  return upright ? fmt::format(R"(<line class="{0}" x1="{1}" x2="{1}" y1="0" y2="1000"/>)", css_class, at)
                 : fmt::format(R"(<line class="{0}" x1="0" x2="1000" y1="{1}" y2="{1}"/>)", css_class, at);
}

struct Ticks {
  std::vector<double> places;
  std::vector<std::string> labels;
};

Ticks ticks_of(const Scale& scale, int count) {
  const std::vector<double> values = scale.ticks(count);
  Ticks ticks{{}, tick_labels(values, scale.kind)};
  for (double value : values) ticks.places.push_back(scale.place(value));
  return ticks;
}

/// Every second x tick has the class `odd`; narrow screens hide this class.
std::string tick_spans(const Ticks& ticks, const char* side) {
  std::string html;
  for (size_t i = 0; i < ticks.places.size(); ++i) {
    html += fmt::format(R"(<span{} style="{}:{}">{}</span>)", i % 2 == 1 ? R"( class="odd")" : "", side,
                        percent(ticks.places[i]), ticks.labels[i]);
  }
  return html;
}

std::string legend_html(const std::string& title, const std::vector<LegendEntry>& entries) {
  if (entries.size() < 2) return "";
  std::string html = R"(<div class="legend">)";
  if (!title.empty()) html += fmt::format("<span>{}</span>", escape_html(title));
  for (size_t i = 0; i < entries.size(); ++i) {
    const LegendEntry& entry = entries[i];
    html += fmt::format(
        R"(<button type="button" aria-pressed="true" data-series="{}"><i class="swatch {}" style="{}"></i>{}</button>)",
        i, css_class(entry.style), color_style(entry.color), escape_html(entry.name));
  }
  return html + "</div>";
}

/// Draws reference lines and their labels, except those outside the frame.
void draw_marks(const Frame& frame, std::string& lines, std::string& labels) {
  for (const Mark& mark : frame.marks) {
    const bool upright = mark.at == Mark::At::x;
    const double place = (upright ? frame.x : frame.y).place(mark.value);
    if (!(place >= 0 && place <= 1)) continue;
    lines += grid_line(upright, place, "mark");
    const char* css_class =
        upright ? (place > 0.6 ? "upright left" : "upright") : (place > 0.9 ? "under" : "over");
    labels += fmt::format(R"(<span class="mark-label {}" style="{}:{}">{}</span>)", css_class,
                          upright ? "left" : "bottom", percent(place), escape_html(mark.label));
  }
}

/// The attributes from which the script converts a place in the plot to values: low, high and kind
/// of both axes.
std::string scale_attributes(const Frame& frame) {
  const auto kind = [](const Scale& scale) { return scale.kind == AxisScale::log ? "log" : "linear"; };
  return fmt::format(R"(data-x="{} {} {}" data-y="{} {} {}" data-x-label="{}")", frame.x.low, frame.x.high,
                     kind(frame.x), frame.y.low, frame.y.high, kind(frame.y), escape_html(frame.x_label));
}

}  // namespace

double Scale::place(double value) const {
  if (!std::isfinite(value)) return not_given;
  if (kind == AxisScale::linear) return (value - low) / (high - low);
  return value > 0 ? std::log(value / low) / std::log(high / low) : not_given;
}

std::vector<double> Scale::ticks(int count) const {
  return kind == AxisScale::log ? log_ticks(low, high, count) : linear_ticks(low, high, count, whole ? 1 : 0);
}

Scale settle(const Axis& axis, std::pair<double, double> data, double padding) {
  const bool log = axis.scale == AxisScale::log;
  double low = std::isnan(axis.low) ? data.first : axis.low;
  double high = std::isnan(axis.high) ? data.second : axis.high;
  check(std::isfinite(low) && std::isfinite(high) && (!log || low > 0),
        "chart: the axis '{}' runs from {} to {}; finite borders are wanted{}", axis.label, low, high,
        log ? ", above 0 on a log axis" : "");
  if (high < low) high = low;
  // A single value, or a spread below rounding error, gets a range around it.
  if (log) {
    const bool flat = high <= low * (1 + 1e-9);
    const double factor = flat ? 2 : std::pow(high / low, padding);
    if (std::isnan(axis.low) || flat) low /= factor;
    if (std::isnan(axis.high) || flat) high *= factor;
  } else {
    const double size = std::max(std::abs(low), std::abs(high));
    const bool flat = high - low <= 1e-9 * size || high == low;
    const double margin = flat ? (size > 0 ? 0.1 * size : 1) : padding * (high - low);
    if (std::isnan(axis.low) || flat) low -= margin;
    if (std::isnan(axis.high) || flat) high += margin;
  }
  return {axis.scale, low, high, axis.whole};
}

std::pair<double, double> with_margin(std::pair<double, double> range, AxisScale kind) {
  if (std::isnan(range.first)) return range;
  const Scale scale = settle({"", kind}, range, y_margin);
  return {scale.low, scale.high};
}

std::string canvas_point(double x_place, double y_place) {
  // Far outside the frame (of a given range) the exact place does not matter, but it must be a
  // plain number.
  const auto bounded = [](double place) { return canvas_size * std::clamp(place, -9.0, 9.0); };
  return canvas_number(bounded(x_place)) + " " + canvas_number(bounded(1 - y_place));
}

const char* css_class(LineStyle style) {
  switch (style) {
    case LineStyle::solid: return "solid";
    case LineStyle::faint: return "faint";
    case LineStyle::dashed: return "dashed";
    case LineStyle::dots: return "dots";
  }
  fail("chart: unknown line style {}", static_cast<int>(style));
}

std::string color_style(const Color& color) {
  for (const std::string& text : {color.light, color.dark}) {
    const bool hexadecimal = text.find_first_not_of("0123456789abcdefABCDEF", 1) == text.npos;
    check(text.size() == 7 && text[0] == '#' && hexadecimal,
          "chart: the colour '{}' is not of the form #rrggbb", text);
  }
  return fmt::format("--l:{};--d:{}", color.light, color.dark);
}

std::string render_missing(const std::string& title, const std::string& reason) {
  return fmt::format(R"(<p class="missing">{}: {}</p>)", escape_html(title), escape_html(reason));
}

std::string render_frame(const Frame& frame, const std::string& drawing) {
  const Ticks x = ticks_of(frame.x, 8), y = ticks_of(frame.y, 6);
  size_t widest = 1;
  for (const std::string& label : y.labels) {
    // Counts characters instead of bytes, by skipping continuation bytes.
    widest = std::max<size_t>(
        widest, std::count_if(label.begin(), label.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  }
  std::string grid, mark_lines, mark_labels;
  for (double place : y.places) grid += grid_line(false, place, "grid");
  for (double place : x.places) grid += grid_line(true, place, "grid upright");
  draw_marks(frame, mark_lines, mark_labels);

  std::string html =
      fmt::format(R"(<div class="chart" style="--ticks:{}ch;--height:{}rem">)", widest, frame.height);
  html += legend_html(frame.legend_title, frame.legend);
  html += fmt::format(R"(<div class="y-label">{}</div>)", escape_html(frame.y_label));
  html += fmt::format(R"(<div class="y-ticks" aria-hidden="true">{}</div>)", tick_spans(y, "bottom"));
  html += fmt::format(R"(<div class="plot" {}>)", scale_attributes(frame));
  html +=
      fmt::format(R"(<svg viewBox="0 0 1000 1000" preserveAspectRatio="none" role="img" aria-label="{}">)",
                  escape_html(frame.title));
  html += grid + drawing + mark_lines + "</svg>" + mark_labels + "</div>";
  html += fmt::format(R"(<div class="x-ticks" aria-hidden="true">{}</div>)", tick_spans(x, "left"));
  html += fmt::format(R"(<div class="x-label">{}</div>)", escape_html(frame.x_label));
  for (const std::string& note : frame.notes)
    html += fmt::format(R"(<p class="note">{}</p>)", escape_html(note));
  return html + "</div>\n";
}

}  // namespace vitrine::nn::report
