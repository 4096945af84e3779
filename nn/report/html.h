// Text for HTML pages: any bytes are accepted, and the result is well-formed.
#pragma once

#include <string>
#include <string_view>

namespace vitrine::nn::report {

/// Converts any bytes to valid UTF-8. U+FFFD replaces each ill-formed sequence (overlong,
/// surrogate, truncated, beyond U+10FFFF), once per maximal ill-formed prefix (Unicode 15, section
/// 3.9, "substitution of maximal subparts"), and each control character except tab and newline.
/// "\r\n" and "\r" become "\n".
std::string valid_utf8(std::string_view bytes);

/// valid_utf8 with & < > " ' as entities: safe as HTML text and inside a quoted attribute.
std::string escape_html(std::string_view bytes);

/// A token for display: valid UTF-8, with visible symbols for space, newline and tab (␣ ⏎ ⇥).
std::string visible_token(std::string_view token);

/// `value` with `digits` significant digits in everyday notation: 0.0123, 1,536, 3.2×10⁻⁷. NaN
/// gives "–".
std::string readable_number(double value, int digits = 4);

/// 10^exponent with superscript digits: 10⁻³.
std::string power_of_ten(int exponent);

/// 1536 bytes as "1.5 KiB", up to TiB. NaN gives "–".
std::string readable_bytes(double bytes);

/// 1.5e12 floating-point operations as "1.5 TFLOPs", from KFLOPs to EFLOPs. NaN gives "–".
std::string readable_flops(double flops);

/// Seconds as "48 s", "3 min 05 s" or "2 h 10 min". NaN gives "–".
std::string readable_duration(double seconds);

}  // namespace vitrine::nn::report
