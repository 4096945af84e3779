#include "core/files/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "core/files/temporary_file.h"

namespace vitrine {
namespace {

using detail::Descriptor, detail::reason, detail::TemporaryFile;

/// While this object lives, a write of this thread fails with an error if it exceeds the file size
/// limit (ulimit -f) or goes into a pipe that nobody reads. Without this object, a signal would end
/// the process.
class NoWriteSignals {
 public:
  NoWriteSignals() {
    sigemptyset(&signals_);
    for (const int signal : {SIGXFSZ, SIGPIPE}) sigaddset(&signals_, signal);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~NoWriteSignals() {
    const timespec at_once{};
    sigset_t pending;  // signals that were pending for this thread before
    sigpending(&pending);
    for (const int signal : {SIGXFSZ, SIGPIPE})
      if (sigismember(&before_, signal) || !sigismember(&pending, signal)) sigdelset(&signals_, signal);
    while (sigtimedwait(&signals_, nullptr, &at_once) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoWriteSignals(const NoWriteSignals&) = delete;
  NoWriteSignals& operator=(const NoWriteSignals&) = delete;

 private:
  sigset_t signals_, before_;
};

void write_all(std::string_view op, const std::string& path, int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    check(written > 0, "{}: cannot write {}: {}", op, path, reason());
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

/// The path that is written: the target, if it is a link. A device, a pipe, a folder or a
/// write-protected file there is an error, because a file must not replace it.
std::string target_of(std::string_view op, const std::string& path) {
  namespace fs = std::filesystem;
  const std::string target = follow_links(op, path);
  std::error_code failed;
  const fs::file_status there = fs::status(target, failed);
  check(!fs::exists(there) || fs::is_regular_file(there), "{}: {} is not a file", op, path);
  const bool may = !fs::exists(there) || ::faccessat(AT_FDCWD, target.c_str(), W_OK, AT_EACCESS) == 0;
  check(may, "{}: cannot write {}: {}", op, path, reason());
  return target;
}

}  // namespace

std::string_view bytes_of(const Tensor& x) {
  return {static_cast<const char*>(x.raw()), static_cast<size_t>(x.numel() * x.element_size())};
}

std::string follow_links(std::string_view op, const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code failed;
  fs::path target = path;
  for (int links = 0; fs::is_symlink(target, failed); ++links) {
    check(links < 40, "{}: {} is a link that leads to itself", op, path);
    const fs::path next = fs::read_symlink(target, failed);
    check(!failed, "{}: cannot follow the link {}: {}", op, path, failed.message());
    target = target.parent_path() / next;
  }
  return target.string();
}

void check_can_write(std::string_view op, const std::string& path) { TemporaryFile(op, target_of(op, path)); }

void write_file(std::string_view op, const std::string& path, std::span<const std::string_view> parts) {
  write_file(op, path, [parts](const WriteBytes& write) {
    for (const std::string_view part : parts) write(part);
  });
}

void write_file(std::string_view op, const std::string& given,
                const std::function<void(const WriteBytes& write)>& content) {
  const std::string path = target_of(op, given);
  const NoWriteSignals guard;
  TemporaryFile file(op, path);
  content([&](std::string_view bytes) { write_all(op, path, file.descriptor(), bytes); });
  file.take_permissions();
  const bool synced = ::fsync(file.descriptor()) == 0;
  check(synced, "{}: cannot write {}: {}", op, path, reason());
  file.rename();
  // The rename is durable only once the folder has been synced too. A folder that cannot be synced
  // is ignored.
  const auto folder = std::filesystem::path(path).parent_path();
  const Descriptor directory(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.number >= 0) ::fsync(directory.number);
}

AppendedFile::AppendedFile(std::string_view op, const std::string& path, bool keep)
    : op_(op),
      path_(path),
      file_(std::make_unique<Descriptor>(
          ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (keep ? 0 : O_TRUNC), 0666))) {
  check(file_->number >= 0, "{}: cannot open {}: {}", op_, path_, reason());
}

void AppendedFile::append(std::string_view bytes) {
  struct stat opened {
  }, there{};
  const bool same = ::fstat(file_->number, &opened) == 0 && ::stat(path_.c_str(), &there) == 0 &&
                    opened.st_dev == there.st_dev && opened.st_ino == there.st_ino;
  check(same, "{}: {} was deleted or replaced while it was written", op_, path_);
  const NoWriteSignals guard;
  write_all(op_, path_, file_->number, bytes);
}

}  // namespace vitrine
