// Token ids.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

namespace vitrine::nn {

/// Token ids, 4 bytes each. Copies and slices share memory.
class Tokens {
 public:
  Tokens() = default;
  Tokens(std::vector<int32_t> ids);
  Tokens(const std::vector<int64_t>& ids);  ///< an id that does not fit into int32 is an error
  Tokens(std::initializer_list<int64_t> ids) : Tokens(std::vector<int64_t>(ids)) {}

  int64_t size() const { return size_; }
  int64_t operator[](int64_t i) const { return first_[i]; }
  const int32_t* begin() const { return first_; }
  const int32_t* end() const { return first_ + size_; }
  Tokens slice(int64_t begin,
               int64_t end) const;  ///< tokens [begin, end); a range that is not there is an error

 private:
  std::shared_ptr<const std::vector<int32_t>> ids_;
  const int32_t* first_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace vitrine::nn
