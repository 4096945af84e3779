#include "core/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/creation.h"

namespace vitrine {

InputFile::InputFile(std::string_view op, const std::string& path)
    // Not blocking, so that a named pipe is refused below rather than waited for.
    : op_(op), path_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  check(file_.number >= 0, "{}: cannot open {}: {}", op, path, detail::reason());
  struct stat info {};
  check(::fstat(file_.number, &info) == 0 && S_ISREG(info.st_mode), "{}: {} is not a file", op, path);
  bytes_ = static_cast<size_t>(info.st_size);
}

void InputFile::read(size_t offset, std::span<char> into) const {
  while (!into.empty()) {
    const ssize_t got = ::pread(file_.number, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    check(got >= 0, "{}: cannot read {}: {}", op_, path_, detail::reason());
    check(got > 0, "{}: {} has been cut to {} bytes since it was opened with {}", op_, path_, offset, bytes_);
    into = into.subspan(static_cast<size_t>(got));
    offset += static_cast<size_t>(got);
  }
}

std::string InputFile::text(size_t offset, size_t bytes) const {
  std::string result(bytes, '\0');
  read(offset, result);
  return result;
}

Tensor InputFile::tensor(std::string_view what, size_t offset, const Shape& shape, DType dtype) const {
  Tensor x = empty(shape, dtype);
  const std::span<char> bytes(static_cast<char*>(x.raw()), static_cast<size_t>(x.numel() * x.element_size()));
  read(offset, bytes);
  if (dtype == DType::boolean)
    for (const char byte : bytes) check(byte == 0 || byte == 1, "{}: a bool is neither 0 nor 1", what);
  return x;
}

}  // namespace vitrine
