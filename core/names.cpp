#include "core/names.h"

#include <algorithm>

namespace vitrine {

size_t edit_distance(std::string_view x, std::string_view y) {
  std::vector<size_t> row(y.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= x.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 1; j <= y.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (x[i - 1] != y[j - 1])});
      diagonal = above;
    }
  }
  return row.back();
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& known) {
  const auto nearest =
      std::min_element(known.begin(), known.end(), [&](const std::string& x, const std::string& y) {
        return edit_distance(name, x) < edit_distance(name, y);
      });
  const size_t limit = std::max<size_t>(2, name.size() / 3);
  if (nearest == known.end() || edit_distance(name, *nearest) > limit) return "";
  return fmt::format("; did you mean {}?", *nearest);
}

std::string joined_by_or(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  return text;
}

}  // namespace vitrine
