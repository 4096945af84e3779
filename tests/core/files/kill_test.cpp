// A process that saves again and again is killed at random moments. VITRINE_KILLS is the number of
// times, by default 20.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <random>

#include "core/creation.h"
#include "core/files/safetensors.h"
#include "core/parallel.h"
#include "tests/environment.h"
#include "tests/folder.h"

using namespace vitrine;

namespace {

/// A file in which every value is this number.
Safetensors content_of(int64_t number) {
  const auto x = static_cast<double>(number);
  return {{{"small", tensor({x})}, {"large", full({1 << 18}, x)}}, {{"number", std::to_string(number)}}};
}

/// The number that every value in the file has.
int64_t number_in(const std::string& path) {
  const Safetensors file = read_safetensors(path);
  const int64_t number = std::stoll(file.metadata.at("number"));
  for (const auto& [name, x] : file.tensors)
    for (const double value : x.values())
      check(value == static_cast<double>(number), "{} of file {} holds {}", name, number, value);
  return number;
}

/// Saves two contents in turn until it is killed. Writes a byte to `begun` after the first save.
[[noreturn]] void save_for_ever(const std::string& path, const Safetensors (&contents)[2], int begun) {
  try {
    set_threads(1);  // those of the parent process are not here
    for (int i = 1;; ++i) {
      write_safetensors(path, contents[i % 2]);
      if (i == 1 && ::write(begun, "", 1) != 1) _exit(1);
    }
  } catch (...) {
    _exit(1);
  }
}

}  // namespace

TEST_CASE("after a kill the old or the new file is whole, and the next save leaves no stray file") {
  const test::Folder folder;
  const std::string path = folder / "saved";
  const int64_t kills = test::from_environment("VITRINE_KILLS", 20);
  REQUIRE(kills > 0);
  const Safetensors contents[] = {content_of(0), content_of(1)};
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 3; ++i) write_safetensors(path, contents[0]);
  const std::chrono::duration<double, std::micro> three_saves = std::chrono::steady_clock::now() - begin;
  std::mt19937 random(static_cast<unsigned>(test::from_environment("VITRINE_KILL_SEED", 1)));
  std::uniform_real_distribution<double> moment(0, three_saves.count());
  int64_t strays = 0;
  for (int64_t i = 0; i < kills; ++i) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) save_for_ever(path, contents, ends[1]);
    char byte = 0;
    close(ends[1]);
    REQUIRE(read(ends[0], &byte, 1) == 1);
    close(ends[0]);
    usleep(static_cast<useconds_t>(moment(random)));
    REQUIRE(kill(child, SIGKILL) == 0);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));  // no save of the child has failed
    number_in(path);               // throws where the file is not whole
    strays += folder.entries() - 1;
    write_safetensors(path, contents[0]);
    CHECK(number_in(path) == 0);
    REQUIRE(folder.entries() == 1);
  }
  MESSAGE(fmt::format("{} kills left {} temporary files, which the next saves removed", kills, strays));
}

TEST_CASE("processes that save one file at once all succeed, and leave a whole file and no temporary one") {
  const test::Folder folder;
  const std::string path = folder / "saved";
  std::vector<pid_t> children;
  for (int64_t number = 0; number < 4; ++number) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      set_threads(1);
      try {
        for (int i = 0; i < 10; ++i) write_safetensors(path, content_of(number));
      } catch (...) {
        _exit(1);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  CHECK(number_in(path) < 4);
  CHECK(folder.entries() == 1);
}
