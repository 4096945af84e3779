// Training on a GPU: the same losses as on the CPU, and checkpoints that one device writes and the
// other reads.
#include "nn/training/trainer.h"
#include "nn/models/gpt.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <string>

#include "core/profiler.h"
#include "core/tensor_kernels.h"
#include "tests/cuda/device.h"
#include "tests/folder.h"
#include "tests/nn/training/reverser.h"
#include "tests/nn/training/tiny.h"
#if VITRINE_CUDA_EMULATED
#include "cuda/emulator/streams.h"
#endif

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::nn::report;
using namespace vitrine::nn::training;
using namespace vitrine::test;

namespace {

constexpr int64_t kSteps = 6;

/// A run of `steps` on the GPU, in graphs or without, with two micro-batches a step.
RunRecord train_in_graph(bool graph, Gpt& model, int64_t steps) {
  model.to(Device::cuda);
  TrainingOptions o = quiet(steps);
  o.accumulate = 2, o.graph = graph, o.clip = 0.1;
  Trainer trainer(text(model, counting(200), counting(18), 1), optim::warmup_cosine(1e-2, 2, steps), o);
  trainer.run();
  return trainer.record();
}

/// A run on one device; or, from step 3 on, in another trainer, through a checkpoint, perhaps on
/// another device.
RunRecord train(Device device, std::optional<Device> later = {}, bool graph = false) {
  const test::Folder folder;
  const std::string path = folder / "checkpoint";
  const auto schedule = optim::warmup_cosine(1e-2, 2, kSteps);
  TrainingOptions o = quiet(kSteps);
  o.graph = graph;
  manual_seed(3);
  Gpt model(tiny());
  model.to(device);
  Trainer first(text(model, counting(200), counting(40)), schedule, o);
  first.run([&] { return later && first.step() == 3; });
  if (!later) return first.record();
  first.save(path);
  manual_seed(99);
  Gpt other(tiny());
  other.to(*later);
  Trainer second(text(other, counting(200), counting(40)), schedule, o);
  second.resume(path);
  second.run();
  return second.record();
}

}  // namespace

TEST_CASE("a model trains on the GPU as on the CPU, with dropout, and goes on from the other's checkpoint") {
  if (!has_gpu()) return;
  const RunRecord wanted = train(Device::cpu);
  for (const RunRecord& record :
       {train(Device::cuda), train(Device::cpu, Device::cuda), train(Device::cuda, Device::cpu)}) {
    CHECK(record.final_validation_loss == doctest::Approx(wanted.final_validation_loss).epsilon(1e-4));
    CHECK(record.train_loss.y.back() == doctest::Approx(wanted.train_loss.y.back()).epsilon(1e-4));
    CHECK(record.peak_memory_bytes > 0);
  }
}

TEST_CASE("a run that goes on from its checkpoint on a GPU has the bits of one that never stopped") {
  if (!has_gpu()) return;
  const RunRecord wanted = train(Device::cuda);
  for (const bool graph : {false, true}) {
    INFO(std::string(graph ? "in graphs" : "step by step"));
    const RunRecord record = train(Device::cuda, Device::cuda, graph);
    const auto& all = wanted.train_loss.y;
    const auto& later = record.train_loss.y;  // from step 3 on
    REQUIRE(later.size() == kSteps - 3);
    CHECK(std::equal(later.begin(), later.end(), all.end() - (kSteps - 3)));
    CHECK(record.final_validation_loss == wanted.final_validation_loss);
  }
}

TEST_CASE("a run in graphs has the bits of one without, also around steps whose gradients are recorded") {
  if (!has_gpu()) return;
  constexpr int64_t kLong = 13;
  manual_seed(3);
  Gpt eager(tiny()), in_graph = eager.clone();
  manual_seed(4);
  const RunRecord want = train_in_graph(false, eager, kLong);
  manual_seed(4);
  const Profiler profiler;
  const RunRecord got = train_in_graph(true, in_graph, kLong);
  int64_t replays = 0;
  for (const Profiler::Row& row : profiler.by_op()) replays += row.name == "replay" ? row.calls : 0;
  CHECK(replays == kLong - 2);  // steps 1 and 11 are recorded
  CHECK(got.train_loss.y == want.train_loss.y);
  CHECK(got.validation_loss.y == want.validation_loss.y);
  CHECK(got.grad_norm_by_layer[0].y == want.grad_norm_by_layer[0].y);
  CHECK(want.grad_norm_by_layer[0].y.size() == 2);
  Gpt low(tiny());
  low.to(DType::float16);
  CHECK_THROWS_WITH(train_in_graph(true, low, kLong), doctest::Contains("a graph leaves out; use bfloat16"));
}

TEST_CASE("a graph replays steps whose batches differ in tokens, and refuses those of other shapes") {
  if (!has_gpu()) return;
  TrainingOptions o = quiet(5);
  o.accumulate = 2;
  const auto trained = [&o](bool graph, const std::function<Batch(int64_t)>& batch) {
    manual_seed(3);
    Reverser model;
    model.to(Device::cuda);
    Task task = reversing(model, 3);
    if (batch) task.batch = batch;
    o.graph = graph;
    Trainer trainer(task, optim::constant(1e-2), o);
    trainer.run();
    return trainer.record();
  };
  CHECK(trained(true, nullptr).train_loss.y == trained(false, nullptr).train_loss.y);
  const auto longer = [](int64_t index) { return reversals(3 * index, index < 6 ? 3 : 4); };
  CHECK_THROWS_WITH(trained(true, longer), doctest::Contains("a batch of step 4 has int64 [4, 6]"));
  const auto more = [](int64_t index) {
    Batch batch = reversals(3 * index, 3);
    if (index >= 6) batch.tensors.push_back(zeros({1}));
    return batch;
  };
  CHECK_THROWS_WITH(trained(true, more), doctest::Contains("a batch of step 4 has 3 tensors"));
}

#if VITRINE_CUDA_EMULATED
TEST_CASE("a task may hand over the same tensors for each batch, though a GPU has not copied them yet") {
  const auto losses = [](bool reuses) {
    manual_seed(5);
    Reverser model;
    model.to(Device::cuda);
    Task task = reversing(model, 4);
    Batch room = task.batch(0);
    if (reuses)
      task.batch = [&room, fresh = task.batch](int64_t index) {
        const Batch batch = fresh(index);
        for (size_t i = 0; i < room.tensors.size(); ++i) VITRINE_RUN(copy, room.tensors[i], batch.tensors[i]);
        room.tokens = batch.tokens;
        return room;
      };
    TrainingOptions o = quiet(3);
    o.accumulate = 3;
    emulator::delay_default_streams(true);
    Trainer trainer(task, optim::constant(1e-2), o);
    trainer.run();
    emulator::delay_default_streams(false);
    return trainer.record().train_loss.y;
  };
  CHECK(losses(true) == losses(false));
}
#endif
