// Files that are written completely or not at all: what they keep of the old file, and what happens
// to temporary files.
#include "core/files/file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/folder.h"
#include "tests/misuse/misuse.h"

using namespace vitrine;
using test::Folder, test::bytes_of_file, test::write_bytes;

namespace fs = std::filesystem;

namespace {

void save(const std::string& path, std::string_view text) {
  const std::string_view parts[] = {text};
  write_file("save", path, parts);
}

struct stat status_of(const std::string& path) {
  struct stat info {};
  REQUIRE(::lstat(path.c_str(), &info) == 0);
  return info;
}

mode_t mode_of(const std::string& path) { return status_of(path).st_mode & 07777; }

}  // namespace

TEST_CASE("a saved file keeps the mode of the file that it replaces") {
  const Folder folder;
  const std::string path = folder / "a";
  for (const mode_t mode : {0600, 0640, 0666, 0755}) {
    write_bytes(path, "old");
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    save(path, "new");
    CHECK(mode_of(path) == mode);
    CHECK(bytes_of_file(path) == "new");
  }
}

TEST_CASE("a file that is new has the mode that the process gives to new files") {
  const Folder folder;
  const mode_t before = ::umask(027);
  save(folder / "a", "new");
  ::umask(before);
  CHECK(mode_of(folder / "a") == 0640);
}

TEST_CASE(
    "a saved file keeps the owner and the group of the file that it replaces, where the system permits") {
  const Folder folder;
  const std::string path = folder / "a";
  write_bytes(path, "old");
  REQUIRE(::chmod(path.c_str(), 0640) == 0);
  if (::chown(path.c_str(), 1234, 2345) != 0) return;  // not root
  save(path, "new");
  CHECK(status_of(path).st_uid == 1234);
  CHECK(status_of(path).st_gid == 2345);
  CHECK(mode_of(path) == 0640);
  // For a process that may not give files away: the permissions of the foreign group do not pass to
  // the process's own group.
  REQUIRE(::chmod(path.c_str(), 0662) == 0);
  test::in_poor_child([&] { save(path, "newer"); });
  CHECK(bytes_of_file(path) == "newer");
  CHECK(status_of(path).st_gid == ::getegid());
  CHECK(mode_of(path) == 0622);
}

TEST_CASE("a file that is protected against writing is not replaced") {
  const Folder folder;
  const std::string path = folder / "a";
  write_bytes(path, "old");
  REQUIRE(::chmod(path.c_str(), 0444) == 0);
  for (const auto& write : {std::function<void()>([&] { save(path, "new"); }),
                            std::function<void()>([&] { check_can_write("save", path); })})
    CHECK_THROWS_WITH_AS(test::in_poor_child(write), doctest::Contains("a: Permission denied"), Error);
  CHECK(bytes_of_file(path) == "old");
  CHECK(mode_of(path) == 0444);
  CHECK(folder.entries() == 1);
}

TEST_CASE("a link that is planted at a name with the process's number is not followed") {
  const Folder folder;
  write_bytes(folder / "victim", "precious");
  for (int i = 0; i < 500; ++i)
    fs::create_symlink("victim", folder / fmt::format("a.tmp{}.{}", ::getpid(), i));
  save(folder / "a", "new");
  CHECK(bytes_of_file(folder / "victim") == "precious");
  CHECK(bytes_of_file(folder / "a") == "new");
}

TEST_CASE("a save removes temporary files whose writer is gone, and none of a writer that lives") {
  const Folder folder;
  const std::string path = folder / "a", gone = path + ".tmp-0123456789abcdef",
                    alive = path + ".tmp-fedcba9876543210";
  const std::vector<std::string> others = {"a.tmp-0123456789abcdeg", "a.tmp-0123", "a.tmp1234.0",
                                           "b.tmp-0123456789abcdef"};
  for (const std::string& name : others) write_bytes(folder / name, "not ours");
  write_bytes(gone, std::string(1000, 'x'));
  write_bytes(alive, "half");
  fs::create_directory(path + ".tmp-00000000000000ff");
  fs::create_symlink("b", path + ".tmp-0000000000000fff");
  const int writer = ::open(alive.c_str(), O_WRONLY | O_CLOEXEC);
  REQUIRE(::flock(writer, LOCK_EX) == 0);
  save(path, "new");
  CHECK(!fs::exists(gone));
  CHECK(bytes_of_file(alive) == "half");
  for (const std::string& name : others) CHECK_MESSAGE(bytes_of_file(folder / name) == "not ours", name);
  CHECK(fs::is_directory(path + ".tmp-00000000000000ff"));
  CHECK(fs::is_symlink(path + ".tmp-0000000000000fff"));
  ::close(writer);
  save(path, "newer");
  CHECK(!fs::exists(alive));
  CHECK(bytes_of_file(path) == "newer");
}

TEST_CASE("relative paths are written where the process works") {
  const Folder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path);
  save("a", "new");
  fs::create_directory("sub");
  save("sub/../b", "new");
  write_bytes("a.tmp-0123456789abcdef", "stray");
  save("./a", "newer");
  fs::current_path(before);
  CHECK(bytes_of_file(folder / "a") == "newer");
  CHECK(bytes_of_file(folder / "b") == "new");
  CHECK(folder.entries() == 3);
}

TEST_CASE(
    "an appended file reports a disk that is full and a pipe that nobody reads, and no signal ends the process") {
  const Folder folder;
  const auto append = [&](const std::string& name, int times) {
    return [&folder, name, times] {
      AppendedFile file("log", folder / name, true);
      for (int i = 0; i < times; ++i) file.append(std::string(1000, 'x'));
    };
  };
  CHECK_THROWS_WITH_AS(test::in_poor_child(append("file", 5), 4096),
                       doctest::Contains("file: File too large"), Error);
  CHECK(fs::file_size(folder / "file") == 4096);
  append("file", 1)();
  CHECK(fs::file_size(folder / "file") == 5096);  // it is continued
  AppendedFile("log", folder / "file", false);
  CHECK(fs::file_size(folder / "file") == 0);
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  const int reader = ::open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK);
  AppendedFile pipe("log", folder / "pipe", true);
  pipe.append("read");
  ::close(reader);
  CHECK_THROWS_WITH_AS(pipe.append("lost"), doctest::Contains("pipe: Broken pipe"), Error);
}
