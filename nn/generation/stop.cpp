#include "nn/generation/stop.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace vitrine::nn {

bool Stop::ends(const std::vector<int64_t>& text, size_t begin, int64_t token) const {
  if (std::find(tokens.begin(), tokens.end(), token) != tokens.end()) return true;
  if (texts.empty()) return false;
  size_t longest = 0;
  for (const std::string& stop : texts) longest = std::max(longest, stop.size());
  // The newest text; a stop text may have begun in the tokens before.
  std::string tail = text_of(token);
  const size_t piece = tail.size();
  for (size_t i = text.size(); i > begin && tail.size() < piece + longest; --i)
    tail.insert(0, text_of(text[i - 1]));
  return std::any_of(texts.begin(), texts.end(),
                     [&](const std::string& stop) { return tail.find(stop) != std::string::npos; });
}

void Stop::validate(const char* op, int64_t vocabulary) const {
  for (const int64_t token : tokens)
    check(token >= 0 && token < vocabulary, "{}: the stop token {} is outside [0, {})", op, token,
          vocabulary);
  for (const std::string& text : texts)
    check(!text.empty(), "{}: a stop text is empty, wanted at least one character", op);
  check(texts.empty() || text_of, "{}: stop texts are given without text_of, the text of a token", op);
}

TextStream::TextStream(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_)
    check(!stop.empty(), "TextStream: a stop text is empty, wanted at least one character");
}

std::string TextStream::add(const std::string& piece) {
  if (stopped_) return "";
  held_ += piece;
  size_t end = held_.size();  // of what is released
  for (const std::string& stop : stops_) {
    const size_t found = held_.find(stop);
    if (found != std::string::npos) stopped_ = true, end = std::min(end, found);
  }
  if (!stopped_)
    for (const std::string& stop : stops_)
      for (size_t begin = held_.size() - std::min(held_.size(), stop.size() - 1); begin < end; ++begin)
        if (stop.starts_with(std::string_view(held_).substr(begin))) end = begin;
  std::string released = held_.substr(0, end);
  held_.erase(0, stopped_ ? std::string::npos : end);
  return released;
}

std::string TextStream::rest() { return std::exchange(held_, ""); }

}  // namespace vitrine::nn
