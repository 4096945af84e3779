// The frame of line charts and histograms: axes, grid, ticks, reference lines, legend.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nn/report/charts/chart.h"

namespace vitrine::nn::report {

/// Width and height of the coordinate system of a chart's SVG.
inline constexpr double canvas_size = 1000;

/// The margin of a y axis on each side, as a share of its range, so that no line touches the
/// border.
inline constexpr double y_margin = 0.05;

/// An axis with a resolved range.
struct Scale {
  AxisScale kind;
  double low, high;
  bool whole = false;

  /// The position of `value` on the axis: 0 at low, 1 at high; NaN if it cannot be drawn.
  double place(double value) const;
  std::vector<double> ticks(int count) const;
};

/// The range of `axis`: the given range, or that of the data, extended by the share `padding` on
/// each side.
Scale settle(const Axis& axis, std::pair<double, double> data, double padding);

/// `range` with the margin of a chart; NaN stays NaN.
std::pair<double, double> with_margin(std::pair<double, double> range, AxisScale kind);

/// SVG coordinates with three decimals: x in [0, canvas_size], y downwards.
std::string canvas_point(double x_place, double y_place);

struct LegendEntry {
  std::string name;
  Color color;
  LineStyle style;
};

/// The name of the line style in the style sheet.
const char* css_class(LineStyle style);

/// The two colours as an inline style: --l for the light theme, --d for the dark theme.
std::string color_style(const Color& color);

/// A complete chart: the frame around `drawing`, the SVG elements inside it.
struct Frame {
  std::string title, legend_title;
  std::string x_label, y_label;
  Scale x, y;
  std::vector<Mark> marks;
  std::vector<LegendEntry> legend;
  std::vector<std::string> notes;
  double height;
};
std::string render_frame(const Frame& frame, const std::string& drawing);

/// The note that replaces a chart without a drawable point.
std::string render_missing(const std::string& title, const std::string& reason);

}  // namespace vitrine::nn::report
