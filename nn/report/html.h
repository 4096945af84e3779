// Text for HTML pages: any bytes in, well-formed text out.
#pragma once

#include <string>
#include <string_view>

namespace vitrine::nn::report {

/// Valid UTF-8 from any bytes: each ill-formed sequence (overlong, surrogate, truncated, beyond
/// U+10FFFF) and each control character but tab and newline becomes U+FFFD; "\r\n" and "\r" become
/// "\n". One U+FFFD per maximal ill-formed prefix (Unicode 15, section 3.9, "substitution of
/// maximal subparts").
std::string valid_utf8(std::string_view bytes);

/// valid_utf8 with & < > " ' as entities: safe as HTML text and inside a quoted attribute.
std::string escape_html(std::string_view bytes);

/// A token for display: valid UTF-8 in which space, newline and tab can be seen (␣ ⏎ ⇥).
std::string visible_token(std::string_view token);

/// `value` with `digits` significant digits as a person writes it: 0.0123, 1,536, 3.2×10⁻⁷. NaN
/// gives "–".
std::string readable_number(double value, int digits = 4);

/// 10^exponent with superscript digits: 10⁻³.
std::string power_of_ten(int exponent);

/// 1536 bytes as "1.5 KiB", up to TiB. NaN gives "–".
std::string readable_bytes(double bytes);

/// Seconds as "48 s", "3 min 05 s" or "2 h 10 min". NaN gives "–".
std::string readable_duration(double seconds);

}  // namespace vitrine::nn::report
