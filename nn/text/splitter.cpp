#include "nn/text/splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <utility>

#include "core/error.h"
#include "nn/text/utf8.h"

namespace vitrine::nn {
namespace {

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

/// PCRE2's own \s has U+180E as well, which is no white space since Unicode 6.3.
std::string with_unicode_space(std::string_view pattern) {
  std::string result;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const std::string_view pair = pattern.substr(i, 2);
    if (pattern[i] != '\\' || pair.size() < 2) {
      result += pattern[i];
      continue;
    }
    result += pair == "\\s" ? "\\p{White_Space}" : pair == "\\S" ? "\\P{White_Space}" : std::string(pair);
    ++i;
  }
  return result;
}

}  // namespace

template <class T, void (*release)(T*)>
struct Release {
  void operator()(T* x) const { release(x); }
};
template <class T, void (*release)(T*)>
using Owned = std::unique_ptr<T, Release<T, release>>;

namespace {

/// What one search needs to remember.
struct Search {
  explicit Search(const pcre2_code* code)
      : data(pcre2_match_data_create_from_pattern(code, nullptr)),
        context(pcre2_match_context_create(nullptr)) {
    check(data && context, "Pattern: there is no memory for a search");
  }
  /// A stack of the matcher's own, for matches that the machine's stack is too small for.
  void enlarge_stack() {
    constexpr size_t kSmallest = size_t{1} << 16, kLargest = size_t{1} << 26;
    stack.reset(pcre2_jit_stack_create(kSmallest, kLargest, nullptr));
    check(stack != nullptr, "Pattern: there is no memory for a search");
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }

  Owned<pcre2_match_data, pcre2_match_data_free> data;
  Owned<pcre2_match_context, pcre2_match_context_free> context;
  Owned<pcre2_jit_stack, pcre2_jit_stack_free> stack;
};

}  // namespace

struct Pattern::Code {
  Owned<pcre2_code, pcre2_code_free> compiled;
};

Pattern::Pattern(std::string text) : text_(std::move(text)) {
  const std::string pattern = with_unicode_space(text_);
  int error = 0;
  PCRE2_SIZE position = 0;
  auto code = std::make_shared<Code>();
  code->compiled.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &position,
                                     nullptr));
  check(code->compiled != nullptr, "Pattern: {} is not a regular expression: at \"{}\": {}", text_,
        pattern.substr(std::min(position, pattern.size())), message_of(error));
  // Without it, PCRE2 interprets the pattern, which is slower and gives the same matches.
  pcre2_jit_compile(code->compiled.get(), PCRE2_JIT_COMPLETE);
  code_ = std::move(code);
}

void Pattern::for_each_match(std::string_view text, const std::function<void(size_t, size_t)>& f) const {
  const pcre2_code* code = code_->compiled.get();
  Search search(code);
  for (size_t from = 0; from < text.size();) {
    const auto match = [&] {
      return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                         PCRE2_NO_UTF_CHECK, search.data.get(), search.context.get());
    };
    int found = match();
    if (found == PCRE2_ERROR_JIT_STACKLIMIT && !search.stack) {
      search.enlarge_stack();
      found = match();
    }
    if (found == PCRE2_ERROR_NOMATCH) return;
    check(found >= 0, "Pattern: {} fails on the text at byte {}: {}", text_, from, message_of(found));
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(search.data.get());
    // \K can move the begin of a match, even beyond its end.
    check(from <= ends[0] && ends[0] <= ends[1], "Pattern: {} has a match that ends before it begins", text_);
    if (ends[0] < ends[1]) {
      f(ends[0], ends[1]);
      from = ends[1];
    } else {
      from = ends[1] < text.size() ? ends[1] + utf8_sequence(text, ends[1]).length : text.size();
    }
  }
}

void Splitter::split(std::string_view text, const std::function<void(std::string_view)>& f) const {
  for (size_t i = 0; i < text.size();) {
    const size_t valid = utf8_valid_length(text, i);
    if (valid > 0) split_from(0, text.substr(i, valid), f);
    i += valid;
    size_t invalid = 0;
    while (i + invalid < text.size() && !utf8_sequence(text, i + invalid).whole) ++invalid;
    if (invalid > 0) f(text.substr(i, invalid));
    i += invalid;
  }
}

void Splitter::split_from(size_t step, std::string_view text,
                          const std::function<void(std::string_view)>& f) const {
  if (step == steps_.size()) return f(text);
  const Remains remains = steps_[step].remains;
  size_t end_before = 0;
  const auto between = [&](size_t end) {
    if (remains != Remains::matches && end_before < end)
      split_from(step + 1, text.substr(end_before, end - end_before), f);
  };
  steps_[step].pattern.for_each_match(text, [&](size_t begin, size_t end) {
    between(begin);
    if (remains != Remains::between) split_from(step + 1, text.substr(begin, end - begin), f);
    end_before = end;
  });
  between(text.size());
}

}  // namespace vitrine::nn
