// Event files of TensorBoard, against a file that TensorBoard's own writer has made, and those of a
// run.
#include "nn/training/event_file.h"

#include <doctest/doctest.h>

#include <cstring>

#include "nn/training/trainer.h"
#include "tests/data.h"
#include "tests/folder.h"
#include "tests/nn/training/tiny.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn::training;

namespace {

const char* const kFirst = "events.out.tfevents.0000000001.vitrine";

/// The number of records, whose checks are tested.
int64_t records_in(const std::string& bytes) {
  int64_t count = 0;
  for (size_t at = 0; at < bytes.size(); ++count) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, 8);
    at += 8 + 4 + length + 4;
    REQUIRE(at <= bytes.size());
  }
  return count;
}

}  // namespace

TEST_CASE("CRC-32C has the values of RFC 3720, appendix B.4") {
  CHECK(crc32c("123456789") == 0xE3069283);
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AA);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62A8AB43);
}

TEST_CASE("the bytes are those of TensorBoard's writer for the same events") {
  const test::Folder folder;
  EventFile file(folder / "new/run", 1);
  file.add(1, 1700000000.25, {{"loss", 3.5}, {"lr", 1e-3}});
  file.add(300, 1700000001.5, {{"validation_loss", -0.125}, {"größe", 1e30}});
  file.add(1000000000000, 1700000002.0, {});
  const std::string golden =
      test::bytes_of_file((test::source_directory() / "tests/data/event_file/golden.tfevents").string());
  REQUIRE(golden.size() > 100);
  CHECK(test::bytes_of_file(folder / "new/run/" + kFirst) == golden);
}

TEST_CASE("a run writes an event a step, and a resumed run begins a file of its own") {
  const test::Folder folder;
  manual_seed(1);
  nn::Gpt model(test::tiny());
  TrainingOptions options = test::quiet(4);
  options.tensorboard = folder / "events";
  const auto trainer = [&] {
    return Trainer(test::text(model, test::counting(300), test::counting(60)), optim::constant(1e-3),
                   options);
  };
  Trainer first = trainer();
  first.run([&] { return first.step() == 3; });
  first.save(folder / "third");
  const std::string bytes = test::bytes_of_file(folder / "events/" + kFirst);
  CHECK(records_in(bytes) == 1 + 3);
  for (const char* name : {"loss", "lr", "flops", "tokens_per_second", "gradient_norm."})
    CHECK_MESSAGE(bytes.find(name) != bytes.npos, name);
  Trainer second = trainer();
  second.resume(folder / "third");
  second.run();
  CHECK(test::bytes_of_file(folder / "events/" + kFirst) == bytes);
  CHECK(records_in(test::bytes_of_file(folder / "events/events.out.tfevents.0000000004.vitrine")) == 1 + 1);
  test::write_bytes(folder / "file", "x");
  CHECK(test::error_of([&] {
          EventFile(folder / "file/sub", 1);
        }).find("tensorboard: cannot make the folder") != std::string::npos);
}
