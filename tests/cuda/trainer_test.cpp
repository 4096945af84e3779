// Training on a GPU: the losses of the CPU, and checkpoints that one device writes and the other reads.
#include "nn/training/trainer.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/cuda/device.h"
#include "tests/nn/training/tiny.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::nn::training;
using namespace vitrine::test;

namespace {

constexpr int64_t kSteps = 6;

/// A run on one device; or, from step 3 on, on another, through a checkpoint.
RunReport train(Device device, Device later) {
  const auto path =
      (std::filesystem::temp_directory_path() / fmt::format("vitrine_gpu_trainer_{}", getpid())).string();
  const auto schedule = optim::warmup_cosine(1e-2, 2, kSteps);
  manual_seed(3);
  Gpt model(tiny());
  model.to(device);
  Trainer first(model, counting(200), counting(40), schedule, quiet(kSteps));
  first.run([&] { return !(device == later) && first.step() == 3; });
  if (device == later) return first.report();
  first.save(path);
  manual_seed(99);
  Gpt other(tiny());
  other.to(later);
  Trainer second(other, counting(200), counting(40), schedule, quiet(kSteps));
  second.resume(path);
  std::filesystem::remove(path);
  second.run();
  return second.report();
}

}  // namespace

TEST_CASE("a model trains on the GPU as on the CPU, with dropout, and goes on from the other's checkpoint") {
  if (!has_gpu()) return;
  const RunReport wanted = train(Device::cpu, Device::cpu);
  struct Devices {
    Device first, later;
  };
  for (const Devices& d : {Devices{Device::cuda, Device::cuda}, Devices{Device::cpu, Device::cuda},
                           Devices{Device::cuda, Device::cpu}}) {
    INFO(to_string(d.first), " then ", to_string(d.later));
    const RunReport report = train(d.first, d.later);
    CHECK(report.final_validation_loss == doctest::Approx(wanted.final_validation_loss).epsilon(1e-4));
    CHECK(report.train_loss.y.back() == doctest::Approx(wanted.train_loss.y.back()).epsilon(1e-4));
    CHECK(report.peak_memory_bytes > 0);
  }
}
