#include "core/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace vitrine {
namespace {

/// A file descriptor that is closed at the end of its scope.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

/// While it lives, writing beyond the limit of a file's size (ulimit -f) is an error of this thread's write, as a full disk is,
/// and no signal that ends the process.
class NoSizeSignal {
 public:
  NoSizeSignal() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~NoSizeSignal() {
    const timespec at_once{};
    if (!sigismember(&before_, SIGXFSZ)) sigtimedwait(&signal_, nullptr, &at_once);  // one that waits
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSizeSignal(const NoSizeSignal&) = delete;
  NoSizeSignal& operator=(const NoSizeSignal&) = delete;

 private:
  sigset_t signal_, before_;
};

std::string reason() { return std::strerror(errno); }

void write_all(std::string_view op, const std::string& path, int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    check(written > 0, "{}: cannot write {}: {}", op, path, reason());
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

/// A name that no other thread or process writes to at this time.
std::string temporary_name(const std::string& path) {
  static std::atomic<int> count{0};
  return fmt::format("{}.tmp{}.{}", path, ::getpid(), count++);
}

/// Where a file is written: where a link leads to. What stands there and is no file is not replaced by one.
std::string target_of(std::string_view op, const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code failed;
  fs::path target = path;
  for (int links = 0; fs::is_symlink(target, failed); ++links) {
    check(links < 40, "{}: {} is a link that leads to itself", op, path);
    const fs::path next = fs::read_symlink(target, failed);
    check(!failed, "{}: cannot follow the link {}: {}", op, path, failed.message());
    target = target.parent_path() / next;
  }
  const fs::file_status there = fs::status(target, failed);
  check(!fs::exists(there) || fs::is_regular_file(there), "{}: {} is not a file", op, path);
  return target.string();
}

/// A new file beside `path`.
Descriptor create(std::string_view op, const std::string& temporary) {
  const int number = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  check(number >= 0, "{}: cannot create {}: {}", op, temporary, reason());
  return {number};
}

}  // namespace

std::string_view bytes_of(const Tensor& x) {
  return {static_cast<const char*>(x.raw()), static_cast<size_t>(x.numel() * x.element_size())};
}

void check_can_write(std::string_view op, const std::string& path) {
  const std::string temporary = temporary_name(target_of(op, path));
  create(op, temporary);
  ::unlink(temporary.c_str());
}

void write_file(std::string_view op, const std::string& given, std::span<const std::string_view> parts) {
  const std::string path = target_of(op, given), temporary = temporary_name(path);
  const NoSizeSignal guard;
  try {
    const Descriptor file = create(op, temporary);
    for (std::string_view part : parts) write_all(op, path, file.number, part);
    const bool synced = ::fsync(file.number) == 0;
    check(synced, "{}: cannot write {}: {}", op, path, reason());
    const bool renamed = ::rename(temporary.c_str(), path.c_str()) == 0;
    check(renamed, "{}: cannot rename {} to {}: {}", op, temporary, path, reason());
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  // The new name lasts once the folder is on disk too; where a folder cannot be synced, nothing can be done.
  const auto folder = std::filesystem::path(path).parent_path();
  const Descriptor directory{
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (directory.number >= 0) ::fsync(directory.number);
}

}  // namespace vitrine
