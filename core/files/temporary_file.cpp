#include "core/files/temporary_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "core/error.h"

namespace vitrine::detail {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".tmp-";
constexpr size_t kDigits = 16;

std::string random_name(const std::string& path) {
  uint64_t bits = 0;
  while (::getrandom(&bits, sizeof bits, 0) != sizeof bits)
    check(errno == EINTR, "the system has no random numbers: {}", reason());
  return fmt::format("{}{}{:016x}", path, kMark, bits);
}

/// Whether `name` is a random_name of `path`, both without the folder.
bool is_temporary_of(std::string_view name, std::string_view path) {
  if (name.size() != path.size() + kMark.size() + kDigits || !name.starts_with(path)) return false;
  name.remove_prefix(path.size());
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return name.starts_with(kMark) && std::all_of(name.begin() + kMark.size(), name.end(), is_digit);
}

/// Removes a temporary file if it can be locked, because then no writer holds it. A writer that has
/// created its file but not yet locked it finds the file locked or removed, and chooses another
/// name.
void remove_if_abandoned(const char* name) {
  // Non-blocking, because the name may belong to a pipe.
  const Descriptor file(::open(name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (file.number >= 0 && ::fstat(file.number, &info) == 0 && S_ISREG(info.st_mode) &&
      ::flock(file.number, LOCK_EX | LOCK_NB) == 0)
    ::unlink(name);
}

void remove_abandoned(const fs::path& path) {
  const fs::path folder = path.parent_path();
  const std::string name = path.filename();
  std::error_code failed;
  fs::directory_iterator entry(folder.empty() ? "." : folder, failed);
  for (; !failed && entry != fs::directory_iterator(); entry.increment(failed))
    if (is_temporary_of(entry->path().filename().native(), name)) remove_if_abandoned(entry->path().c_str());
}

/// Locks the file for this process. False if another process is about to remove the file.
bool locked(int file) {
  if (::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  struct stat info {};
  return ::fstat(file, &info) == 0 && info.st_nlink > 0;
}

}  // namespace

TemporaryFile::TemporaryFile(std::string_view op, const std::string& path) : op_(op), path_(path) {
  remove_abandoned(path);
  // The file stays private until it has the mode of the file that it replaces.
  struct stat old {};
  const mode_t mode = ::stat(path.c_str(), &old) == 0 ? 0600 : 0666;
  do {
    name_ = random_name(path);
    file_ = std::make_unique<Descriptor>(
        ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    check(file_->number >= 0, "{}: cannot create {}: {}", op_, name_, reason());
  } while (!locked(file_->number));
}

TemporaryFile::~TemporaryFile() {
  if (!name_.empty()) ::unlink(name_.c_str());
}

void TemporaryFile::take_permissions() {
  struct stat old {};
  if (::stat(path_.c_str(), &old) != 0) return;
  mode_t mode = old.st_mode & 0777;
  // A process without privileges may still choose one of its own groups.
  if (::fchown(file_->number, old.st_uid, old.st_gid) != 0 &&
      ::fchown(file_->number, static_cast<uid_t>(-1), old.st_gid) != 0)
    mode &= ~mode_t{0070} | (mode & 0007) << 3;
  ::fchmod(file_->number, mode);  // fails on a file system without modes
}

void TemporaryFile::rename() {
  const bool renamed = ::rename(name_.c_str(), path_.c_str()) == 0;
  check(renamed, "{}: cannot rename {} to {}: {}", op_, name_, path_, reason());
  name_.clear();
}

}  // namespace vitrine::detail
