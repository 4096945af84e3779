#include "core/files/input_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/creation.h"

namespace vitrine {

InputFile::InputFile(std::string_view op, const std::string& path)
    // Non-blocking, so that a named pipe is refused below instead of blocking here.
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

std::shared_ptr<Storage> InputFile::block(size_t offset, size_t bytes) const {
  auto memory = std::make_shared<Storage>(bytes, Device::cpu);
  read(offset, {static_cast<char*>(memory->data()), bytes});
  return memory;
}

std::shared_ptr<Storage> InputFile::mapped() const {
  void* const data =
      ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file_.number, 0);
  check(data != MAP_FAILED, "{}: cannot map {}: {}", op_, path_, detail::reason());
  std::shared_ptr<void> mapping(data, [bytes = bytes_](void* start) { ::munmap(start, bytes); });
  return std::make_shared<Storage>(data, bytes_, Device::cpu, std::move(mapping));
}

Tensor tensor_in(std::string_view what, const std::shared_ptr<Storage>& block, size_t offset,
                 const Shape& shape, DType dtype) {
  char* const data = static_cast<char*>(block->data()) + offset;
  const size_t bytes = static_cast<size_t>(numel(shape)) * size_of(dtype);
  if (dtype == DType::boolean)
    for (size_t i = 0; i < bytes; ++i)
      check(data[i] == 0 || data[i] == 1, "{}: a bool is neither 0 nor 1", what);
  if (reinterpret_cast<uintptr_t>(data) % size_of(dtype) == 0)
    return Tensor(std::make_shared<Storage>(data, bytes, Device::cpu, block), shape,
                  contiguous_strides(shape), 0, dtype);
  Tensor copy = empty(shape, dtype);
  std::memcpy(copy.raw(), data, bytes);
  return copy;
}

}  // namespace vitrine
