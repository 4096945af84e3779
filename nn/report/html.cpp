#include "nn/report/html.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "nn/text/utf8.h"

namespace vitrine::nn::report {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD

std::string with_thousands(const std::string& digits) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string without_trailing_zeros(std::string text) {
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

std::string valid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size();) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    if (byte < 0x80) {
      const bool carriage_return = byte == '\r';
      const bool control = (byte < 0x20 && byte != '\t' && byte != '\n') || byte == 0x7F;
      if (carriage_return) {
        if (i + 1 == bytes.size() || bytes[i + 1] != '\n') out += '\n';
      } else if (control) {
        out += replacement;
      } else {
        out += bytes[i];
      }
      ++i;
      continue;
    }
    const auto [length, whole] = utf8_sequence(bytes, i);
    const bool c1_control = byte == 0xC2 && whole && static_cast<unsigned char>(bytes[i + 1]) < 0xA0;
    if (whole && !c1_control) {
      out += bytes.substr(i, length);
    } else {
      out += replacement;
    }
    i += length;
  }
  return out;
}

std::string escape_html(std::string_view bytes) {
  std::string out;
  for (char c : valid_utf8(bytes)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string visible_token(std::string_view token) {
  std::string out;
  for (char c : valid_utf8(token)) {
    switch (c) {
      case ' ': out += "␣"; break;
      case '\n': out += "⏎"; break;
      case '\t': out += "⇥"; break;
      default: out += c;
    }
  }
  return out;
}

std::string power_of_ten(int exponent) {
  static constexpr std::string_view superscripts[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string out = "10";
  if (exponent < 0) out += "⁻";
  for (char digit : fmt::format("{}", std::abs(exponent))) out += superscripts[digit - '0'];
  return out;
}

std::string readable_number(double value, int digits) {
  if (std::isnan(value)) return "–";
  if (std::isinf(value)) return value > 0 ? "∞" : "−∞";
  if (value == 0) return "0";
  const std::string sign = value < 0 ? "−" : "";
  const double size = std::abs(value);
  // The formatter rounds first: 9999.7 with 4 digits has the exponent 4, not 3.
  const std::string scientific = fmt::format("{:.{}e}", size, digits - 1);
  const size_t e = scientific.find('e');
  const int exponent = std::stoi(scientific.substr(e + 1));
  if (exponent < -3 || exponent > 14) {
    return sign + without_trailing_zeros(scientific.substr(0, e)) + "×" + power_of_ten(exponent);
  }
  if (exponent >= digits - 1) return sign + with_thousands(fmt::format("{:.0f}", size));
  const std::string fixed = fmt::format("{:.{}f}", size, digits - 1 - exponent);
  const size_t point = fixed.find('.');
  return sign + with_thousands(fixed.substr(0, point)) + fixed.substr(point);
}

std::string readable_bytes(double bytes) {
  if (!std::isfinite(bytes)) return "–";
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(units)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", without_trailing_zeros(fmt::format("{:.1f}", bytes)), units[unit]);
}

std::string readable_flops(double flops) {
  if (!std::isfinite(flops)) return "–";
  static constexpr const char* units[] = {"", "K", "M", "G", "T", "P", "E"};
  size_t unit = 0;
  while (flops >= 999.5 && unit + 1 < std::size(units)) {
    flops /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g} {}FLOPs", flops, units[unit]);
}

std::string readable_duration(double seconds) {
  if (!std::isfinite(seconds)) return "–";
  if (seconds < 60) return fmt::format("{:.3g} s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace vitrine::nn::report
