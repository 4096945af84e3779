// The frame that line chart and histogram share: axes, grid, ticks, reference lines, legend.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nn/report/charts/chart.h"

namespace vitrine::nn::report {

/// Width and height of the coordinate system in which the SVG of a chart is drawn.
inline constexpr double canvas_size = 1000;

/// The share of its range that a y axis leaves free on each side, so that no line touches the
/// border.
inline constexpr double y_margin = 0.05;

/// An axis with its range settled.
struct Scale {
  AxisScale kind;
  double low, high;
  bool whole = false;

  /// Where `value` lies: 0 at low, 1 at high; NaN if it cannot be drawn.
  double place(double value) const;
  std::vector<double> ticks(int count) const;
};

/// The range of `axis`: what it gives, else the data's, widened by the share `padding` on each
/// side.
Scale settle(const Axis& axis, std::pair<double, double> data, double padding);

/// `range` with the margin that a chart of it leaves; NaN stays NaN.
std::pair<double, double> with_margin(std::pair<double, double> range, AxisScale kind);

/// x in [0, canvas_size] and y downwards, as SVG wants them, with three decimals.
std::string canvas_point(double x_place, double y_place);

struct LegendEntry {
  std::string name;
  Color color;
  LineStyle style;
};

/// The style's name in the style sheet.
const char* css_class(LineStyle style);

/// The two colours as an inline style: --l and --d, of which the theme picks one.
std::string color_style(const Color& color);

/// A whole chart around `drawing`, the SVG elements inside the frame.
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

/// What stands in the place of a chart without a drawable point.
std::string render_missing(const std::string& title, const std::string& reason);

}  // namespace vitrine::nn::report
