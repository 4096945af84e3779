// Charts as HTML: line chart, histogram and heat table, drawn in C++ as inline SVG and tables.
//
// A chart's SVG is stretched to whatever width its place has (preserveAspectRatio="none", strokes
// that do not scale), while ticks, labels and legend are HTML text placed in per cent: the same
// chart is legible on a phone and on a projector. The styles and the script of the page
// (report.css, report.js) complete it: colours of the light and dark theme, tooltips, legends that
// switch lines off.
//
// No value breaks a chart: what cannot be drawn (NaN, infinity, non-positive on a log axis) leaves
// a gap and a note.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "nn/report/series.h"

namespace vitrine::nn::report {

/// One colour per theme, as "#rrggbb". Anything else is an error where a chart is rendered.
struct Color {
  std::string light, dark;
};

/// Colour of the index-th of several things without order: the palette of Okabe and Ito (2008),
/// made to be told apart with every common colour blindness, ordered by contrast on the theme's
/// ground. Repeats after six, which categorical_style() tells apart.
Color categorical_color(int index);

/// Colour of the index-th of `count` ordered things (layers): viridis, cut to the part that stands
/// out from the ground.
Color ordered_color(int index, int count);

enum class AxisScale { linear, log };

/// An axis: its label with the unit, and its range, taken from the data where it is not given.
struct Axis {
  std::string label = {};
  AxisScale scale = AxisScale::linear;
  double low = not_given, high = not_given;
  bool whole = false;  // ticks at whole numbers alone
};

enum class LineStyle { solid, faint, dashed, dots };

/// Solid for six things, dashed for the next six.
LineStyle categorical_style(int index);

/// A series and its looks.
struct Line {
  Series series = {};
  Color color = {};  // not given: categorical_color of the line's place in the chart
  LineStyle style = LineStyle::solid;
  std::string legend =
      "";  // the legend's entry, where it is not the series' name; several lines may share one
};

/// A reference line: across at a y value, or upright at an x value.
struct Mark {
  enum class At { x, y } at;
  double value;
  std::string label;
};

/// Lines over a common x axis.
struct LineChart {
  std::string title = {};  // what a screen reader says the picture shows
  Axis x = {}, y = {};
  std::vector<Line> lines = {};
  std::vector<Mark> marks = {};
  std::string legend_title = {};  // "layer", put before the legend's entries
  // Longer lines are drawn by downsample(), longer faint ones by range_band()
  int max_points = 2000;
  double height = 18;  // in rem
};

/// The chart as an HTML <div class="chart">; if no line has a drawable point, a note in its place.
std::string render_line_chart(const LineChart& chart);

/// Bars over [edges[i], edges[i + 1]] on a linear x axis; several groups are drawn over each other
/// as outlines.
struct Histogram {
  struct Group {
    std::string name = {};
    Color color = {};                    // not given: categorical_color of the group's place
    LineStyle style = LineStyle::solid;  // of the outline
    std::vector<double> heights = {};    // edges.size() - 1 of them
  };
  std::string title = {};
  Axis x = {}, y = {};
  std::vector<double> edges = {};  // rising
  std::vector<Group> groups = {};
  std::vector<Mark> marks = {};
  double height = 18;
};

/// Throws unless every group has edges.size() - 1 heights.
std::string render_histogram(const Histogram& histogram);

/// A table of numbers, each cell shaded by its value between `low` and `high` (the extremes, where
/// not given).
struct HeatTable {
  std::string title = {};
  std::string row_title = {}, column_title = {};  // "layer", "head"
  std::vector<std::string> rows = {}, columns = {};
  std::vector<double> values = {};  // rows × columns, row-major; NaN: an empty cell
  double low = not_given, high = not_given;
  AxisScale scale = AxisScale::linear;
  std::function<std::string(double)> format =
      {};  // text of a cell; readable_number with 3 digits, where empty
};

/// Throws unless there are rows × columns values.
std::string render_heat_table(const HeatTable& table);

/// Indices of at most about `max_points` points that keep the look of a line: of each of
/// max_points/2 buckets of neighbours the lowest and the highest value, and one non-finite value,
/// where there is one, so that a gap stays a gap. First and last point stay. All indices, where the
/// series is short enough. Rising.
std::vector<size_t> downsample(const std::vector<double>& y, int max_points);

/// The lowest and the highest drawable value of `count` pieces of a series, each at the middle
/// of its piece. NaN where a piece has none.
struct BandPoint {
  double x, low, high;
};
std::vector<BandPoint> range_band(const Series& series, int count, AxisScale scale);

/// At about `points` places, the last one included, the mean of the finite values within `radius`
/// neighbours on each side. At the start both sides shrink, so that a steep fall is followed; at
/// the end only the later side is cut, so that the last value is no single noisy one. Unlike a
/// running average it does not lag after the curve. NaN where the place itself holds no finite
/// value.
Series smooth(const Series& series, int radius, int points = 1000);

/// Round values (1, 2 or 5 times a power of ten apart) within [low, high], about `count` of
/// them, at least `least` apart.
std::vector<double> linear_ticks(double low, double high, int count, double least = 0);

/// Powers of ten within [low, high] (0 < low), thinned to at most `count`; over less than two
/// decades 1-2-5 steps.
std::vector<double> log_ticks(double low, double high, int count);

/// Tick labels with as many decimals as their distance asks for: 0.5, 1.0; 10k, 20k; 2×10⁻⁴.
std::vector<std::string> tick_labels(const std::vector<double>& ticks, AxisScale scale);

/// Lowest and highest drawable value of `values`; {not_given, not_given} if there is none.
std::pair<double, double> drawable_range(const std::vector<double>& values, AxisScale scale);

}  // namespace vitrine::nn::report
