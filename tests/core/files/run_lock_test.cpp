// Locks of runs: an error names the other process, and a process that was killed holds no lock.
#include "core/files/run_lock.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/folder.h"

using namespace vitrine;
using test::Folder;

namespace fs = std::filesystem;

namespace {

/// A process that locks the path until it is killed.
class Holder {
 public:
  explicit Holder(const std::string& path) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    process = fork();
    if (process == 0) {
      const RunLock lock("holder", path);
      if (::write(ends[1], "", 1) == 1) pause();
      _exit(1);
    }
    char byte = 0;
    close(ends[1]);
    CHECK(read(ends[0], &byte, 1) == 1);
    close(ends[0]);
  }
  ~Holder() {
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  pid_t process = -1;
};

}  // namespace

TEST_CASE("a path that another process holds is an error that names the process, until that is killed") {
  const Folder folder;
  for (const std::string& path : {folder / "file", folder.path.string()}) {
    {
      const Holder holder(path);
      const std::string named =
          fmt::format("run: {} is in use by another run, process {} on ", path, holder.process);
      CHECK_THROWS_WITH_AS(RunLock("run", path), doctest::Contains(named.c_str()), Error);
      CHECK_THROWS_WITH_AS(RunLock("run", path), doctest::Contains("vitrine_tests"), Error);
    }
    RunLock("run", path);
    CHECK(fs::is_empty(folder.path));  // no lock is left
  }
}

TEST_CASE("links to one file have one lock, and other files their own") {
  const Folder folder;
  fs::create_symlink("file", folder / "link");
  const RunLock lock("run", folder / "link"), other("run", folder / "other");
  CHECK_THROWS_WITH_AS(RunLock("run", folder / "file"), doctest::Contains("is in use"), Error);
}

TEST_CASE("devices and pipes are not locked, and a planted link at the name of a lock is not followed") {
  const Folder folder;
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  const RunLock pipe("run", folder / "pipe"), again("run", folder / "pipe"), device("run", "/dev/full");
  CHECK(!fs::exists("/dev/full.vitrine-lock"));
  test::write_bytes(folder / "victim", "precious");
  fs::create_symlink("victim", folder / "file.vitrine-lock");
  CHECK_THROWS_WITH_AS(RunLock("run", folder / "file"), doctest::Contains("cannot lock"), Error);
  CHECK(test::bytes_of_file(folder / "victim") == "precious");
}
