#include "nn/data/synthetic/digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/creation.h"

namespace vitrine::nn::synthetic {
namespace {

struct Point {
  double x, y;
};
using Stroke = std::vector<Point>;

/// The strokes of each digit; x to the right, y downwards, both from 0 to 1.
const std::array<std::vector<Stroke>, 10> kDigits = {{
    {{{.5, .05}, {.75, .2}, {.8, .5}, {.75, .8}, {.5, .95}, {.25, .8}, {.2, .5}, {.25, .2}, {.5, .05}}},
    {{{.3, .25}, {.55, .05}, {.55, .95}}},
    {{{.22, .25}, {.4, .06}, {.65, .08}, {.77, .28}, {.65, .5}, {.2, .95}, {.8, .95}}},
    {{{.22, .12},
      {.5, .05},
      {.74, .2},
      {.68, .42},
      {.45, .48},
      {.72, .56},
      {.78, .78},
      {.5, .95},
      {.2, .86}}},
    {{{.62, .95}, {.62, .05}, {.18, .65}, {.85, .65}}},
    {{{.75, .05}, {.3, .05}, {.26, .45}, {.55, .4}, {.77, .55}, {.77, .78}, {.5, .95}, {.22, .87}}},
    {{{.68, .07}, {.4, .25}, {.24, .6}, {.32, .88}, {.55, .95}, {.76, .8}, {.72, .58}, {.5, .5}, {.26, .66}}},
    {{{.2, .05}, {.8, .05}, {.42, .95}}},
    {{{.5, .48},
      {.27, .34},
      {.3, .12},
      {.5, .05},
      {.7, .12},
      {.73, .34},
      {.5, .48},
      {.24, .64},
      {.26, .86},
      {.5, .95},
      {.74, .86},
      {.76, .64},
      {.5, .48}}},
    {{{.74, .34}, {.55, .5}, {.3, .42}, {.26, .2}, {.46, .05}, {.7, .12}, {.74, .34}, {.66, .95}}},
}};

/// A random affine map about the centre, and a shift of each point.
std::vector<Stroke> varied(std::vector<Stroke> strokes, double jitter, Generator& random) {
  const double angle = uniform(random, -.2, .2) * jitter, slant = uniform(random, -.2, .2) * jitter;
  const double width = 1 + uniform(random, -.2, .1) * jitter, height = 1 + uniform(random, -.2, .1) * jitter;
  const double right = uniform(random, -.08, .08) * jitter, down = uniform(random, -.08, .08) * jitter;
  for (Stroke& stroke : strokes)
    for (Point& p : stroke) {
      const double x = width * (p.x - .5) + slant * (p.y - .5), y = height * (p.y - .5);
      p.x = .5 + right + x * std::cos(angle) - y * std::sin(angle) + uniform(random, -.03, .03) * jitter;
      p.y = .5 + down + x * std::sin(angle) + y * std::cos(angle) + uniform(random, -.03, .03) * jitter;
    }
  return strokes;
}

double distance(Point p, Point a, Point b) {
  const double dx = b.x - a.x, dy = b.y - a.y, squared = dx * dx + dy * dy;
  const double along = squared == 0 ? 0 : ((p.x - a.x) * dx + (p.y - a.y) * dy) / squared;
  const double t = std::clamp(along, 0.0, 1.0);
  return std::hypot(p.x - a.x - t * dx, p.y - a.y - t * dy);
}

double distance(Point p, const std::vector<Stroke>& strokes) {
  double nearest = 2;
  for (const Stroke& stroke : strokes)
    for (size_t i = 1; i < stroke.size(); ++i)
      nearest = std::min(nearest, distance(p, stroke[i - 1], stroke[i]));
  return nearest;
}

LabelledImage draw_digit(const DigitOptions& o, Generator& random) {
  const int64_t digit = random.next_below(10);
  const auto strokes = varied(kDigits[static_cast<size_t>(digit)], o.jitter, random);
  // Half of the pen's thickness and a soft edge of a pixel, where the square is 0.8 of the image
  const double scale = .8 * static_cast<double>(o.side), margin = .1 * static_cast<double>(o.side);
  const double pen = uniform(random, .04, .07) * scale;
  LabelledImage item{empty({o.side, o.side}), digit};
  for (int64_t row = 0; row < o.side; ++row)
    for (int64_t column = 0; column < o.side; ++column) {
      const Point p{(static_cast<double>(column) + .5 - margin) / scale,
                    (static_cast<double>(row) + .5 - margin) / scale};
      const double ink = std::clamp(pen + .5 - distance(p, strokes) * scale, 0.0, 1.0);
      const double value = std::min(1.0, ink + uniform(random, 0, o.noise));
      item.image.data<float>()[row * o.side + column] = static_cast<float>(value);
    }
  return item;
}

}  // namespace

Dataset<LabelledImage> digits(Part part, int64_t size, const DigitOptions& options, uint64_t seed) {
  check(options.side >= 8 && options.jitter >= 0 && options.noise >= 0,
        "digits: side {}, jitter {} and noise {}, wanted 8, 0 and 0 at least", options.side, options.jitter,
        options.noise);
  return drawn<LabelledImage>(
      part, size, seed, [options](Generator& random) { return draw_digit(options, random); },
      [](const LabelledImage& item) { return content_of(item.image); });
}

}  // namespace vitrine::nn::synthetic
