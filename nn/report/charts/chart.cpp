#include "nn/report/charts/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "nn/report/charts/frame.h"
#include "nn/report/html.h"

namespace vitrine::nn::report {
namespace {

/// The number of points of a line that cannot be drawn, by reason.
struct Gaps {
  size_t not_finite = 0, not_positive = 0;
};

/// SVG path data. Each gap begins a new piece. A single point between gaps becomes a dot, a line of
/// length 0.
std::string path_data(const std::vector<double>& x_places, const std::vector<double>& y_places) {
  std::string path;
  const auto drawn = [&](size_t i) {
    return i < x_places.size() && std::isfinite(x_places[i] + y_places[i]);
  };
  for (size_t i = 0; i < x_places.size(); ++i) {
    if (!drawn(i)) continue;
    const bool begins = i == 0 || !drawn(i - 1);
    const std::string point = canvas_point(x_places[i], y_places[i]);
    path += (begins ? "M" : "L") + point;
    if (begins && !drawn(i + 1)) path += "L" + point;
  }
  return path;
}

/// Draws each point as a line of length 0. Round caps turn it into a disc, which stays round when
/// the SVG is stretched.
std::string marker_data(const std::vector<double>& x_places, const std::vector<double>& y_places) {
  std::string path;
  for (size_t i = 0; i < x_places.size(); ++i) {
    if (std::isfinite(x_places[i] + y_places[i])) path += "M" + canvas_point(x_places[i], y_places[i]) + "h0";
  }
  return path;
}

constexpr int kBandPoints = 400;

/// The area between the lowest and the highest values. Its outline follows the highest values and
/// returns along the lowest; each gap begins a new piece.
std::string band_data(const std::vector<BandPoint>& band, const Scale& x, const Scale& y) {
  std::string path, back;
  for (const BandPoint& point : band) {
    if (std::isnan(point.low)) {
      if (!back.empty()) path += back + "Z";
      back.clear();
      continue;
    }
    path += (back.empty() ? "M" : "L") + canvas_point(x.place(point.x), y.place(point.high));
    back = "L" + canvas_point(x.place(point.x), y.place(point.low)) + back;
  }
  return back.empty() ? path : path + back + "Z";
}

/// `color`, or the colour with this index if none was given.
Color settled(const Color& color, size_t index) {
  return color.light.empty() && color.dark.empty() ? categorical_color(static_cast<int>(index)) : color;
}

std::string draw_line(const Line& line, size_t legend_index, const Scale& x, const Scale& y, int max_points,
                      Gaps& gaps) {
  for (double value : line.series.y) {
    if (!std::isfinite(value)) {
      ++gaps.not_finite;
    } else if (y.kind == AxisScale::log && value <= 0) {
      ++gaps.not_positive;
    }
  }
  // Thousands of noisy steps would be a solid block that hides how dense they are.
  if (line.style == LineStyle::faint && line.series.y.size() > static_cast<size_t>(max_points))
    return fmt::format(R"(<path class="band" style="{}" data-series="{}" data-name="{}" d="{}"/>)",
                       color_style(line.color), legend_index, escape_html(line.series.name),
                       band_data(range_band(line.series, kBandPoints, y.kind), x, y));
  std::vector<double> x_places, y_places;
  for (size_t i : downsample(line.series.y, max_points)) {
    x_places.push_back(x.place(line.series.x[i]));
    y_places.push_back(y.place(line.series.y[i]));
  }
  std::string svg = fmt::format(
      R"(<path class="line {}" style="{}" data-series="{}" data-name="{}" d="{}"/>)", css_class(line.style),
      color_style(line.color), legend_index, escape_html(line.series.name), path_data(x_places, y_places));
  if (line.style == LineStyle::dots) {
    svg += fmt::format(R"(<path class="markers" style="{}" data-series="{}" d="{}"/>)",
                       color_style(line.color), legend_index, marker_data(x_places, y_places));
  }
  return svg;
}

std::vector<std::string> gap_notes(const Gaps& gaps) {
  const auto count = [](size_t n) { return fmt::format("{} {}", n, n == 1 ? "value is" : "values are"); };
  std::vector<std::string> notes;
  if (gaps.not_finite > 0) {
    notes.push_back(count(gaps.not_finite) + " not finite (NaN or infinite): a gap in the line.");
  }
  if (gaps.not_positive > 0) {
    notes.push_back(count(gaps.not_positive) + " zero or negative and have no place on a logarithmic axis.");
  }
  return notes;
}

size_t legend_index(std::vector<LegendEntry>& legend, const Line& line) {
  const std::string& name = line.legend.empty() ? line.series.name : line.legend;
  const auto found = std::find_if(legend.begin(), legend.end(),
                                  [&](const LegendEntry& entry) { return entry.name == name; });
  if (found != legend.end()) {
    if (found->style == LineStyle::faint) found->style = line.style;
    return static_cast<size_t>(found - legend.begin());
  }
  legend.push_back({name, line.color, line.style});
  return legend.size() - 1;
}

bool has_drawable_point(const Series& series, AxisScale x, AxisScale y) {
  return !std::isnan(drawable_range(series.x, x).first) && !std::isnan(drawable_range(series.y, y).first);
}

std::pair<double, double> joint_range(const std::vector<std::pair<double, double>>& ranges) {
  std::vector<double> borders;
  for (const auto& range : ranges) borders.insert(borders.end(), {range.first, range.second});
  return drawable_range(borders, AxisScale::linear);
}

void check_histogram(const Histogram& histogram) {
  check(histogram.edges.size() >= 2, "render_histogram: {} edges, at least 2 are wanted",
        histogram.edges.size());
  check(std::adjacent_find(histogram.edges.begin(), histogram.edges.end(),
                           [](double a, double b) { return !(a < b); }) == histogram.edges.end(),
        "render_histogram: the edges must rise");
  for (const Histogram::Group& group : histogram.groups) {
    check(group.heights.size() + 1 == histogram.edges.size(),
          "render_histogram: group '{}' has {} heights; {} edges want {}", group.name, group.heights.size(),
          histogram.edges.size(), histogram.edges.size() - 1);
  }
}

/// The outline of one group's bars; it starts and ends on the baseline.
std::string draw_bars(const Histogram::Group& group, size_t index, const std::vector<double>& edges,
                      const Scale& x, const Scale& y) {
  std::string path = "M" + canvas_point(x.place(edges.front()), 0);
  for (size_t i = 0; i < group.heights.size(); ++i) {
    const double top = std::isfinite(group.heights[i]) ? y.place(group.heights[i]) : 0;
    path += "L" + canvas_point(x.place(edges[i]), top) + "L" + canvas_point(x.place(edges[i + 1]), top);
  }
  path += "L" + canvas_point(x.place(edges.back()), 0) + "Z";
  return fmt::format(R"(<path class="bars {}" style="{}" data-series="{}" d="{}"/>)", css_class(group.style),
                     color_style(group.color), index, path);
}

/// An invisible strip over the full height of one bin. Its tooltip shows the values of all groups.
std::string draw_bin_tip(const Histogram& histogram, size_t bin, const Scale& x) {
  const double left = canvas_size * x.place(histogram.edges[bin]);
  const double right = canvas_size * x.place(histogram.edges[bin + 1]);
  std::string tip = fmt::format("{} to {}", readable_number(histogram.edges[bin], 3),
                                readable_number(histogram.edges[bin + 1], 3));
  for (const Histogram::Group& group : histogram.groups) {
    tip += "\n" + group.name + ": " + readable_number(group.heights[bin], 3);
  }
  return fmt::format(R"(<rect class="bin" x="{:.6g}" y="0" width="{:.6g}" height="1000" data-tip="{}"/>)",
                     left, right - left, escape_html(tip));
}

}  // namespace

std::string render_line_chart(const LineChart& chart) {
  std::vector<std::pair<double, double>> x_ranges, y_ranges;
  std::vector<Line> drawn;
  Frame frame;
  for (const Line& line : chart.lines) {
    const Series& series = line.series;
    check(series.x.size() == series.y.size(), "render_line_chart: series '{}' has {} x and {} y values",
          series.name, series.x.size(), series.y.size());
    if (!has_drawable_point(series, chart.x.scale, chart.y.scale)) {
      frame.notes.push_back(series.name +
                            (series.y.empty() ? ": no values." : ": no value that can be drawn."));
      continue;
    }
    drawn.push_back(line);
    drawn.back().color = settled(line.color, static_cast<size_t>(&line - chart.lines.data()));
    x_ranges.push_back(drawable_range(series.x, chart.x.scale));
    y_ranges.push_back(drawable_range(series.y, chart.y.scale));
  }
  if (drawn.empty()) return render_missing(chart.title, "no values to draw.");

  frame.title = chart.title;
  frame.legend_title = chart.legend_title;
  frame.x_label = chart.x.label;
  frame.y_label = chart.y.label;
  frame.x = settle(chart.x, joint_range(x_ranges), 0.01);
  frame.y = settle(chart.y, joint_range(y_ranges), y_margin);
  frame.marks = chart.marks;
  frame.height = chart.height;
  std::string drawing;
  Gaps gaps;
  for (const Line& line : drawn) {
    drawing += draw_line(line, legend_index(frame.legend, line), frame.x, frame.y, chart.max_points, gaps);
  }
  for (std::string& note : gap_notes(gaps)) frame.notes.push_back(std::move(note));
  return render_frame(frame, drawing);
}

std::string render_histogram(const Histogram& histogram) {
  check_histogram(histogram);
  std::vector<double> heights;
  for (const Histogram::Group& group : histogram.groups) {
    heights.insert(heights.end(), group.heights.begin(), group.heights.end());
  }
  const auto range = drawable_range(heights, AxisScale::linear);
  if (std::isnan(range.first)) return render_missing(histogram.title, "no values to draw.");

  Frame frame;
  frame.title = histogram.title;
  frame.x_label = histogram.x.label;
  frame.y_label = histogram.y.label;
  frame.x = settle(histogram.x, {histogram.edges.front(), histogram.edges.back()}, 0);
  Axis y = histogram.y;
  if (std::isnan(y.low)) y.low = 0;
  frame.y = settle(y, range, 0.08);
  frame.marks = histogram.marks;
  frame.height = histogram.height;
  std::string drawing;
  for (size_t i = 0; i < histogram.groups.size(); ++i) {
    Histogram::Group group = histogram.groups[i];
    group.color = settled(group.color, i);
    frame.legend.push_back({group.name, group.color, group.style});
    drawing += draw_bars(group, i, histogram.edges, frame.x, frame.y);
  }
  for (size_t bin = 0; bin + 1 < histogram.edges.size(); ++bin)
    drawing += draw_bin_tip(histogram, bin, frame.x);
  return render_frame(frame, drawing);
}

}  // namespace vitrine::nn::report
