#include "nn/data/byte_reader.h"

#include <zlib.h>

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/files/input_file.h"

namespace vitrine::nn {

struct ByteReader::State {
  std::string op, path;
  InputFile file;
  gzFile packed = nullptr;  // null for a file that is not packed
  uint64_t position = 0;

  State(std::string_view o, const std::string& p) : op(o), path(p), file(o, p) {
    std::array<char, 2> magic{};
    if (file.bytes() >= 2) file.read(0, magic);
    if (magic[0] != '\x1f' || magic[1] != '\x8b') return;
    packed = gzopen(path.c_str(), "rb");
    check(packed != nullptr, "{}: cannot open {}", op, path);
  }
  State(const State&) = delete;
  ~State() {
    if (packed != nullptr) gzclose_r(packed);
  }

  size_t unpack(std::span<char> into) {
    size_t done = 0;
    while (done < into.size()) {
      const auto part = static_cast<unsigned>(std::min<size_t>(into.size() - done, 1 << 30));
      const int got = gzread(packed, into.data() + done, part);
      int code = Z_OK;
      const char* const reason = gzerror(packed, &code);
      // At a truncated end zlib gives what it has, and reports the missing rest in this way
      check(got >= 0 && code != Z_BUF_ERROR, "{}: {} is a damaged gzip file, after {} unpacked bytes: {}", op,
            path, position + done, code == Z_BUF_ERROR ? "it is truncated" : reason);
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    return done;
  }
};

ByteReader::ByteReader(std::string_view op, const std::string& path)
    : state_(std::make_unique<State>(op, path)) {}
ByteReader::~ByteReader() = default;
ByteReader::ByteReader(ByteReader&&) noexcept = default;

uint64_t ByteReader::position() const { return state_->position; }

std::optional<uint64_t> ByteReader::size() const {
  if (state_->packed != nullptr) return std::nullopt;
  return state_->file.bytes();
}

size_t ByteReader::read(std::span<char> into) {
  size_t got = 0;
  if (state_->packed != nullptr) {
    got = state_->unpack(into);
  } else {
    got = static_cast<size_t>(std::min<uint64_t>(into.size(), state_->file.bytes() - state_->position));
    state_->file.read(state_->position, into.first(got));
  }
  state_->position += got;
  return got;
}

std::string ByteReader::take(uint64_t bytes, std::string_view what) {
  const uint64_t start = position();
  const auto complain = [&](uint64_t found) {
    fail("{}: {} is truncated: {} has {} bytes from byte {} on, and {} are there", state_->op, state_->path,
         what, bytes, start, found);
  };
  if (size() && bytes > *size() - start) complain(*size() - start);
  // In steps, because only reading shows how much a gzip file holds
  constexpr uint64_t kStep = 1 << 20;
  std::string result;
  while (result.size() < bytes) {
    const size_t have = result.size();
    result.resize(static_cast<size_t>(std::min<uint64_t>(bytes, have + std::max<uint64_t>(have, kStep))));
    const size_t got = read({result.data() + have, result.size() - have});
    if (have + got < result.size()) complain(have + got);
  }
  return result;
}

}  // namespace vitrine::nn
