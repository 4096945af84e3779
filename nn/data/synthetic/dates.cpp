#include "nn/data/synthetic/dates.h"

#include <array>
#include <chrono>

namespace vitrine::nn::synthetic {
namespace {

constexpr std::array kMonths = {"january", "february", "march",     "april",   "may",      "june",
                                "july",    "august",   "september", "october", "november", "december"};
constexpr std::array kWeekdays = {"sunday",   "monday", "tuesday", "wednesday",
                                  "thursday", "friday", "saturday"};

std::string ordinal(int day) {
  const bool teen = day / 10 == 1;
  const char* const end = teen            ? "th"
                          : day % 10 == 1 ? "st"
                          : day % 10 == 2 ? "nd"
                          : day % 10 == 3 ? "rd"
                                          : "th";
  return fmt::format("{}{}", day, end);
}

WrittenDate draw_date(Generator& random) {
  using namespace std::chrono;
  const sys_days first = year(1900) / 1 / 1, last = year(2099) / 12 / 31;
  const sys_days chosen = first + days(random.next_below((last - first).count() + 1));
  const year_month_day date = chosen;
  const int y = static_cast<int>(date.year());
  const auto m = static_cast<int>(static_cast<unsigned>(date.month()));
  const auto d = static_cast<int>(static_cast<unsigned>(date.day()));
  const std::string month = kMonths[static_cast<size_t>(m - 1)];
  const std::string day_of_week = kWeekdays[std::chrono::weekday(chosen).c_encoding()];
  const std::string written[] = {
      fmt::format("{} {} {}", d, month, y),
      fmt::format("{} {}, {}", month, d, y),
      fmt::format("{} {} {}", month.substr(0, 3), d, y),
      fmt::format("the {} of {} {}", ordinal(d), month, y),
      fmt::format("{}, {} {}, {}", day_of_week, month, d, y),
      fmt::format("{} {} {} {}", day_of_week.substr(0, 3), d, month.substr(0, 3), y),
      fmt::format("{}.{}.{}", d, m, y),
      fmt::format("{}, {} {}", y, month, ordinal(d)),
  };
  return {pick(random, written), fmt::format("{:04}-{:02}-{:02}", y, m, d)};
}

}  // namespace

Dataset<WrittenDate> dates(Part part, int64_t size, uint64_t seed) {
  return drawn<WrittenDate>(part, size, seed, draw_date, [](const WrittenDate& date) { return date.iso; });
}

}  // namespace vitrine::nn::synthetic
