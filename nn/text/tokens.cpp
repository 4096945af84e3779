#include "nn/text/tokens.h"

#include "core/error.h"

namespace vitrine::nn {

Tokens::Tokens(std::vector<int32_t> ids)
    : ids_(std::make_shared<const std::vector<int32_t>>(std::move(ids))),
      first_(ids_->data()),
      size_(std::ssize(*ids_)) {}

Tokens::Tokens(const std::vector<int64_t>& ids)
    : Tokens([&] {
        for (const int64_t id : ids)
          check(id == static_cast<int32_t>(id), "Tokens: {} is larger than an int32", id);
        return std::vector<int32_t>(ids.begin(), ids.end());
      }()) {}

Tokens Tokens::slice(int64_t begin, int64_t end) const {
  check(0 <= begin && begin <= end && end <= size_, "Tokens: there is no [{}, {}) in {} tokens", begin, end,
        size_);
  Tokens part = *this;
  part.first_ += begin;
  part.size_ = end - begin;
  return part;
}

}  // namespace vitrine::nn
