#include "nn/data/lines.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/files/input_file.h"
#include "nn/text/utf8.h"

namespace vitrine::nn {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

void check_utf8(std::string_view text, std::string_view op, const std::string& path, int64_t line) {
  for (size_t i = 0; i < text.size();) {
    if (static_cast<unsigned char>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    const Utf8Sequence sequence = utf8_sequence(text, i);
    check(sequence.whole, "{}: {}, line {}: byte {} of the line, {:#04x}, does not begin a UTF-8 character",
          op, path, line, i + 1, static_cast<unsigned char>(text[i]));
    i += sequence.length;
  }
}

/// A line without its end.
std::string_view trimmed(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

/// The text of a file: a function that gives the bytes [begin, end).
using Text = std::function<std::string(uint64_t begin, uint64_t end)>;

/// Of a plain file the bytes are read when they are asked for.
Text text_of(std::string_view op, const std::string& path) {
  ByteReader bytes(op, path);
  if (bytes.size())
    return [file = std::make_shared<const InputFile>(op, path)](uint64_t begin, uint64_t end) {
      return file->text(begin, end - begin);
    };
  auto text = std::make_shared<std::string>();
  std::string part(1 << 16, '\0');
  while (const size_t got = bytes.read(part)) text->append(part, 0, got);
  return [text](uint64_t begin, uint64_t end) { return text->substr(begin, end - begin); };
}

}  // namespace

LineReader::LineReader(std::string_view op, const std::string& path)
    : op_(op), path_(path), bytes_(op, path) {
  constexpr uint64_t kBuffer = 1 << 16;
  buffer_.resize(std::min(kBuffer, std::max<uint64_t>(bytes_.size().value_or(kBuffer), 1)));
}

bool LineReader::fill() {
  at_ = 0;
  end_ = bytes_.read(buffer_);
  return end_ > 0;
}

std::optional<std::string> LineReader::next() {
  if (at_ == end_ && !fill()) return std::nullopt;
  begin_ = bytes_.position() - (end_ - at_);
  std::string line;
  do {
    const char* const from = buffer_.data() + at_;
    const void* const feed = std::memchr(from, '\n', end_ - at_);
    const size_t length =
        feed == nullptr ? end_ - at_ : static_cast<size_t>(static_cast<const char*>(feed) - from) + 1;
    line.append(from, length);
    at_ += length;
    if (feed != nullptr) break;
  } while (fill());
  ++line_;
  if (line_ == 1 && line.starts_with(kByteOrderMark)) {
    line.erase(0, kByteOrderMark.size());
    begin_ += kByteOrderMark.size();
  }
  line.resize(trimmed(line).size());
  check_utf8(line, op_, path_, line_);
  return line;
}

Dataset<std::string> read_lines(const std::string& path, std::string_view op) {
  LineReader lines(op, path);
  auto begins = std::make_shared<std::vector<uint64_t>>();
  uint64_t end = 0;
  while (const auto line = lines.next()) {
    begins->push_back(lines.begin());
    end = lines.end();
  }
  const int64_t size = std::ssize(*begins);
  begins->push_back(end);
  return {size, [begins, text = text_of(op, path)](int64_t i) {
            const auto at = static_cast<size_t>(i);
            std::string line = text((*begins)[at], (*begins)[at + 1]);
            line.resize(trimmed(line).size());
            return line;
          }};
}

Dataset<SentencePair> read_parallel_text(const std::string& source, const std::string& target) {
  auto from = read_lines(source, "read_parallel_text"), to = read_lines(target, "read_parallel_text");
  const bool shorter = from.size() < to.size();
  check(from.size() == to.size(), "read_parallel_text: {} ends after line {}, but {} has a line {}",
        shorter ? source : target, std::min(from.size(), to.size()), shorter ? target : source,
        std::min(from.size(), to.size()) + 1);
  const int64_t size = from.size();
  return {size, [from = std::move(from), to = std::move(to)](int64_t i) {
            return SentencePair{from[i], to[i]};
          }};
}

Dataset<LabelledText> read_classes(const std::vector<std::string>& paths) {
  check(!paths.empty(), "read_classes: there are no files, wanted one for each class");
  std::vector<Dataset<LabelledText>> classes;
  for (const std::string& path : paths)
    classes.push_back(
        mapped(read_lines(path, "read_classes"), [label = std::ssize(classes)](std::string line) {
          return LabelledText{std::move(line), label};
        }));
  return concatenated(std::move(classes));
}

}  // namespace vitrine::nn
