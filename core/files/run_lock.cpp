#include "core/files/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/files/file.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;
using detail::Descriptor, detail::reason;

constexpr const char* kMark = ".vitrine-lock";

/// The name by which another run's error refers to this process.
std::string own_name() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::string command{std::istreambuf_iterator<char>(in), {}};
  std::replace(command.begin(), command.end(), '\0', ' ');
  return fmt::format("process {} on {}: {}", ::getpid(), host, command.substr(0, 500));
}

std::string text_of(int file) {
  char text[1024];
  const ssize_t count = ::pread(file, text, sizeof text, 0);
  return count > 0 ? std::string(text, static_cast<size_t>(count)) : "whose name is not known";
}

/// Whether the open file still has its name, that is, its holder has not removed it.
bool is_named(int file, const std::string& name) {
  struct stat opened {
  }, there{};
  return ::fstat(file, &opened) == 0 && ::stat(name.c_str(), &there) == 0 && opened.st_ino == there.st_ino &&
         opened.st_dev == there.st_dev;
}

}  // namespace

RunLock::RunLock(std::string_view op, const std::string& path) {
  std::error_code failed;
  const fs::path target =
      fs::weakly_canonical(follow_links(op, path), failed);  // all names of a file have one lock
  const fs::file_status there = fs::status(target, failed);
  if (fs::exists(there) && !fs::is_regular_file(there) && !fs::is_directory(there)) return;
  const std::string name = target.string() + (fs::is_directory(there) ? "/" : "") + kMark;
  bool named = false;
  for (int tries = 0; !named && tries < 100; ++tries) {
    file_ =
        std::make_unique<Descriptor>(::open(name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644));
    check(file_->number >= 0, "{}: cannot lock {} by {}: {}", op, path, name, reason());
    const bool held = ::flock(file_->number, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    check(!held, "{}: {} is in use by another run, {}", op, path, text_of(file_->number));
    named = is_named(file_->number, name);
  }
  name_ = name;
  const std::string holder = own_name();
  if (::ftruncate(file_->number, 0) != 0 || ::pwrite(file_->number, holder.data(), holder.size(), 0) < 0)
    return;  // on a full disk the lock still works, but an error cannot name this process
}

RunLock::~RunLock() {
  if (!name_.empty()) ::unlink(name_.c_str());
}

}  // namespace vitrine
