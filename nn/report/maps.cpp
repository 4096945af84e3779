// Attention maps: the data for the script, and the place where the script draws them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "nn/report/html.h"
#include "nn/report/parts.h"

namespace vitrine::nn::report {
namespace {

/// Longer texts are cut, because the cells would be too small to see and the file size grows with
/// the square.
constexpr size_t longest_side = 128;

constexpr int code_nan = 4095, code_one = 4094;
constexpr double code_decades = 10;  // the smallest code is 10⁻¹⁰

int weight_code(float weight) {
  if (!(weight >= 0 && weight <= 1.01f)) return code_nan;  // bfloat16 may round to more than 1
  if (weight == 0) return 0;
  const double log10_weight = std::log10(static_cast<double>(weight));
  const double code = code_one + std::round(log10_weight / code_decades * (code_one - 1));
  return static_cast<int>(std::clamp(code, 1.0, static_cast<double>(code_one)));
}

std::vector<float> top_left(const AttentionMap& map, size_t rows, size_t columns) {
  std::vector<float> weights;
  weights.reserve(rows * columns);
  for (size_t i = 0; i < rows; ++i) {
    const auto row = map.weights.begin() + static_cast<std::ptrdiff_t>(i * map.key_labels.size());
    weights.insert(weights.end(), row, row + static_cast<std::ptrdiff_t>(columns));
  }
  return weights;
}

/// The index in `all` of these labels, which are cut and made visible. Equal lists are stored once.
size_t label_index(const std::vector<std::string>& labels, std::vector<std::vector<std::string>>& all) {
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(labels.size(), longest_side); ++i)
    shown.push_back(visible_token(labels[i]));
  const auto found = std::find(all.begin(), all.end(), shown);
  if (found != all.end()) return static_cast<size_t>(found - all.begin());
  all.push_back(std::move(shown));
  return all.size() - 1;
}

}  // namespace

std::string encode_weights(const std::vector<float>& weights) {
  static constexpr std::string_view alphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string codes;
  codes.reserve(2 * weights.size());
  for (float weight : weights) {
    const int code = weight_code(weight);
    codes += alphabet[static_cast<size_t>(code / 64)];
    codes += alphabet[static_cast<size_t>(code % 64)];
  }
  return codes;
}

nlohmann::json map_data(const RunRecord& run) {
  std::vector<std::vector<std::string>> labels;
  nlohmann::json maps = nlohmann::json::array();
  for (const AttentionMap& map : run.maps) {
    check(
        map.weights.size() == map.query_labels.size() * map.key_labels.size(),
        "render_report: run '{}', attention map of layer {}, head {}: {} weights for {} queries and {} keys",
        run.name, map.layer, map.head, map.weights.size(), map.query_labels.size(), map.key_labels.size());
    if (map.weights.empty()) continue;
    const size_t rows = std::min(map.query_labels.size(), longest_side);
    const size_t columns = std::min(map.key_labels.size(), longest_side);
    maps.push_back({{"layer", map.layer},
                    {"head", map.head},
                    {"queries", label_index(map.query_labels, labels)},
                    {"keys", label_index(map.key_labels, labels)},
                    {"codes", encode_weights(top_left(map, rows, columns))}});
  }
  return {{"name", valid_utf8(run.name)}, {"labels", labels}, {"maps", maps}};
}

std::string map_viewer(const RunRecord& run, int index) {
  size_t longest = 0, odd = 0;
  bool any = false;
  for (const AttentionMap& map : run.maps) {
    any = any || !map.weights.empty();
    longest = std::max({longest, map.query_labels.size(), map.key_labels.size()});
    for (float weight : map.weights) odd += weight_code(weight) == code_nan ? 1 : 0;
  }
  if (!any)
    return card("Attention maps", R"(<p class="missing">No attention maps were taken.</p>)", "", "wide");

  std::string html = fmt::format(
      R"(<div class="maps" data-run="{}"><noscript>Attention maps need JavaScript.</noscript>)", index);
  html +=
      R"(<div class="map-side"><div class="map-thumbs"></div>)"
      R"(<div class="map-shade"><label><input type="checkbox"> shade by log₁₀</label>)"
      R"(<div class="map-legend"><span></span><i></i><span></span></div></div></div>)"
      R"(<div class="map-main"><h4></h4><canvas tabindex="0" role="img"></canvas></div>)"
      R"(<div class="map-read"><p class="map-value" aria-live="polite"></p><div class="map-tokens"></div></div></div>)";
  if (longest > longest_side) {
    html +=
        fmt::format(R"(<p class="note">The first {} of {} positions are shown.</p>)", longest_side, longest);
  }
  if (odd > 0) {
    html += fmt::format(R"(<p class="note">{} {} NaN or outside [0, 1] and drawn in orange.</p>)", odd,
                        odd == 1 ? "value is" : "values are");
  }
  return card("Attention maps", html,
              "Row <i>i</i> shows the keys that the token at <i>i</i> attends to: <i>p<sub>ij</sub></i> = "
              "softmax<sub><i>j</i></sub>(α<i>s<sub>ij</sub></i>). Each row sums to 1; keys hidden by the "
              "mask are blank. "
              "Choose a head on the left. Point at a cell for its weight; the text below shows the same row.",
              "wide");
}

std::string map_pair(const std::vector<RunRecord>& runs) {
  std::vector<size_t> with_maps;
  for (size_t i = 0; i < runs.size(); ++i)
    if (std::any_of(runs[i].maps.begin(), runs[i].maps.end(),
                    [](const AttentionMap& map) { return !map.weights.empty(); }))
      with_maps.push_back(i);
  if (with_maps.size() < 2) return "";
  // Another method is a better comparison than another seed.
  const size_t left = with_maps[0];
  const auto other = std::find_if(with_maps.begin(), with_maps.end(),
                                  [&](size_t i) { return method_of(runs[i]) != method_of(runs[left]); });
  const size_t right = other == with_maps.end() ? with_maps[1] : *other;
  std::string html =
      R"(<div class="map-pair"><noscript>Attention maps need JavaScript.</noscript>)"
      R"(<div class="map-choice"><label>layer and head <select class="map-head"></select></label>)"
      R"(<label><input type="checkbox"> shade by log₁₀</label></div><div class="panels two">)";
  for (const bool is_left : {true, false}) {
    html += fmt::format(R"(<div><label>{} <select class="map-run">)", is_left ? "left" : "right");
    for (const size_t i : with_maps)
      html += fmt::format(R"(<option value="{}"{}>{}</option>)", i,
                          i == (is_left ? left : right) ? " selected" : "", escape_html(runs[i].name));
    html += R"(</select></label><canvas tabindex="0" role="img"></canvas>)"
            R"(<p class="map-value" aria-live="polite"></p></div>)";
  }
  return card(
      "Attention maps side by side", html + "</div></div>",
      "The same head of two runs on the same validation data. Point at a cell for its weight in both runs.",
      "wide");
}

}  // namespace vitrine::nn::report
