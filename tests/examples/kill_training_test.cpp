// Training that is killed at random moments, and continued from its last checkpoint. VITRINE_KILLS
// is the number of kills, by default 4, and VITRINE_KILL_SEED seeds their moments.
#include <chrono>
#include <filesystem>
#include <random>

#include "tests/environment.h"
#include "tests/examples/train_gpt.h"

using namespace vitrine;
using namespace vitrine::test::train_gpt;
using test::bytes_of_file;

TEST_CASE("training that is killed again and again ends with the bits of a run that was never stopped") {
  const TextFolder folder;
  const auto words = [&](const std::string& out, const std::string& resume = "") {
    Arguments all = tiny(folder, {"--steps", "60", "--save-every", "1", "--dropout", "0.1", "--seed", "7",
                                  "--threads", "1", "--out", folder / out});
    if (!resume.empty()) all.insert(all.end(), {"--resume", resume});
    return all;
  };
  const auto begin = std::chrono::steady_clock::now();
  Program through(folder, words("through"));
  REQUIRE_MESSAGE(through.exit_code() == 0, through.printed());
  const std::chrono::duration<double, std::micro> whole = std::chrono::steady_clock::now() - begin;
  const std::string expected = bytes_of_file(folder / "through/standard.safetensors");

  const auto wanted = test::from_environment("VITRINE_KILLS", 4);
  std::mt19937 random(static_cast<unsigned>(test::from_environment("VITRINE_KILL_SEED", 1)));
  std::uniform_real_distribution<double> moment(0, whole.count());
  const std::string saved = folder / "killed/standard.safetensors";
  int64_t kills = 0, continued = 0;
  while (kills < wanted) {
    std::filesystem::remove_all(folder / "killed");
    for (bool ended = false; !ended;) {
      const bool resumes = std::filesystem::exists(saved);
      continued += resumes ? 1 : 0;
      Program program(folder, words("killed", resumes ? saved : ""));
      if (kills == 0)  // the first kill comes after a checkpoint
        while (program.running() && !std::filesystem::exists(saved)) usleep(1000);
      else if (kills < wanted)
        usleep(static_cast<useconds_t>(moment(random)));
      if (kills < wanted && program.running()) {
        program.send(SIGKILL);
        ++kills;
        ended = program.exit_code() == 0;  // it may have ended just before
        CHECK((ended || program.exit_code() == -1));
      } else {
        REQUIRE_MESSAGE(program.exit_code() == 0, program.printed());
        ended = true;
      }
    }
    CHECK((bytes_of_file(saved) == expected));
    for (const auto& entry : std::filesystem::directory_iterator(folder / "killed"))
      CHECK_MESSAGE(entry.path().string().find(".tmp") == std::string::npos, entry.path().string());
  }
  CHECK(continued > 0);
  MESSAGE(fmt::format("{} kills, {} continued runs", kills, continued));
}
