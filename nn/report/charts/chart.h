// Charts as HTML: line chart, histogram and heat table, drawn in C++ as inline SVG and tables.
//
// The SVG of a chart is stretched to the available width (preserveAspectRatio="none", strokes that
// do not scale). Ticks, labels and legend are HTML text with positions in per cent. The same chart
// is therefore legible on a phone and on a projector. The styles and the script of the page
// (report.css, report.js) add the colours of the light and dark theme, tooltips, and legends that
// hide lines.
//
// Every value is accepted: values that cannot be drawn (NaN, infinity, values ≤ 0 on a log axis)
// leave a gap and a note.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "nn/report/series.h"

namespace vitrine::nn::report {

/// One colour per theme, as "#rrggbb". Other text is an error when a chart is rendered.
struct Color {
  std::string light, dark;
};

/// The colour of item `index` of an unordered set: the palette of Okabe and Ito (2008), which
/// people with common colour blindness can distinguish, sorted by contrast with the background. It
/// repeats after six colours; categorical_style() distinguishes the repetitions.
Color categorical_color(int index);

/// The colour of item `index` of `count` ordered items, such as layers: viridis without the part
/// that is too close to the background.
Color ordered_color(int index, int count);

enum class AxisScale { linear, log };

/// An axis: its label with the unit, and its range. A range that is not given is taken from the
/// data.
struct Axis {
  std::string label = {};
  AxisScale scale = AxisScale::linear;
  double low = not_given, high = not_given;
  bool whole = false;  // ticks at whole numbers only
};

enum class LineStyle { solid, faint, dashed, dots };

/// Solid for the first six items, dashed for the next six.
LineStyle categorical_style(int index);

/// A series and its appearance.
struct Line {
  Series series = {};
  Color color = {};  // not given: categorical_color of the line's index in the chart
  LineStyle style = LineStyle::solid;
  std::string legend = "";  // legend entry; "": the series' name; lines may share one
};

/// A reference line: horizontal at a y value, or vertical at an x value.
struct Mark {
  enum class At { x, y } at;
  double value;
  std::string label;
};

/// A line chart; the lines share the x axis.
struct LineChart {
  std::string title = {};  // the description for screen readers
  Axis x = {}, y = {};
  std::vector<Line> lines = {};
  std::vector<Mark> marks = {};
  std::string legend_title = {};  // "layer": precedes the legend entries
  // Longer lines are reduced by downsample(), longer faint lines by range_band()
  int max_points = 2000;
  double height = 18;  // in rem
};

/// The chart as an HTML <div class="chart">. If no line has a drawable point, the div contains a
/// note.
std::string render_line_chart(const LineChart& chart);

/// A histogram: bars over [edges[i], edges[i + 1]] on a linear x axis. Several groups are drawn as
/// overlapping outlines.
struct Histogram {
  struct Group {
    std::string name = {};
    Color color = {};                    // not given: categorical_color of the group's index
    LineStyle style = LineStyle::solid;  // of the outline
    std::vector<double> heights = {};    // edges.size() - 1 values
  };
  std::string title = {};
  Axis x = {}, y = {};
  std::vector<double> edges = {};  // increasing
  std::vector<Group> groups = {};
  std::vector<Mark> marks = {};
  double height = 18;
};

/// Error: a group without edges.size() - 1 heights.
std::string render_histogram(const Histogram& histogram);

/// A table of numbers. Each cell is shaded by its value between `low` and `high`, by default the
/// smallest and the largest value.
struct HeatTable {
  std::string title = {};
  std::string row_title = {}, column_title = {};  // "layer", "head"
  std::vector<std::string> rows = {}, columns = {};
  std::vector<double> values = {};  // rows × columns, row-major; NaN: an empty cell
  double low = not_given, high = not_given;
  AxisScale scale = AxisScale::linear;
  // The text of a cell; empty: readable_number with 3 digits
  std::function<std::string(double)> format = {};
  // Small cells without text, as pixels; tooltips have the numbers. As many rows as columns make a
  // square.
  bool is_picture = false;
};

/// Error: the number of values is not rows × columns.
std::string render_heat_table(const HeatTable& table);

/// Reduces a series to about `max_points` points with the same appearance, and returns their
/// indices in increasing order. Each of max_points/2 buckets of neighbours keeps its lowest value,
/// its highest value, and one non-finite value if it has any, so that a gap remains a gap. The
/// first and the last point are kept. A series that is short enough keeps all points.
std::vector<size_t> downsample(const std::vector<double>& y, int max_points);

/// Splits a series into `count` pieces and gives the lowest and the highest drawable value of each,
/// at the middle of the piece. NaN if a piece has none.
struct BandPoint {
  double x, low, high;
};
std::vector<BandPoint> range_band(const Series& series, int count, AxisScale scale);

/// Smooths a series: at about `points` positions, including the last, the mean of the finite values
/// within `radius` neighbours on each side. Near the start, both sides shrink, so that the result
/// follows a steep fall. Near the end, only the right side is cut, so that the last value is still
/// a mean. The window is centred, so the result does not lag. NaN if the value at the position
/// itself is not finite.
Series smooth(const Series& series, int radius, int points = 1000);

/// About `count` round values within [low, high], at least `least` apart. Their distance is 1, 2 or
/// 5 times a power of ten.
std::vector<double> linear_ticks(double low, double high, int count, double least = 0);

/// Powers of ten within [low, high], 0 < low, at most `count` of them. For a range of less than two
/// decades: 1, 2 and 5 times the powers of ten.
std::vector<double> log_ticks(double low, double high, int count);

/// Tick labels with as many decimals as their distance requires: 0.5, 1.0; 10k, 20k; 2×10⁻⁴.
std::vector<std::string> tick_labels(const std::vector<double>& ticks, AxisScale scale);

/// The lowest and the highest drawable value of `values`; {not_given, not_given} if there is none.
std::pair<double, double> drawable_range(const std::vector<double>& values, AxisScale scale);

}  // namespace vitrine::nn::report
