// A record that has a value of each kind.
#pragma once

#include <cmath>

#include "nn/report/run.h"

namespace vitrine::test {

inline nn::report::RunRecord whole_record() {
  nn::report::RunRecord record;
  record.name = "laser, seed 2", record.method = "laser", record.seed = "2";
  record.words = {.item = "token", .loss_unit = "nats per token", .classes = 7, .writes_text = true};
  record.settings = {{"lr", "0.001"}, {"mixer", "<laser>"}};
  record.train_loss = {"loss", {1, 2, 3}, {3, NAN, 2}};
  record.validation_loss = {"validation", {1, 3}, {3, 2.5}};
  record.learning_rate = {"", {1, 2, 3}, {1e-3, 1e-3, 5e-4}};
  record.speed = {"", {1, 2, 3}, {100, 120, 110}};
  record.flops = {"", {1, 2, 3}, {1e9, 1e9, 1e9}};
  record.metrics = {{"accuracy", true, "{:.1f} %", {"accuracy", {1, 3}, {50, 75}}}};
  record.grad_norm_by_layer = {{"blocks.0", {1, 2}, {0.5, 0.25}}, {"head", {1, 2}, {1, 2}}};
  record.grad_norm_by_path = {{"blocks.0", {"q", {1}, {1}}, {"k", {1}, {2}}, {"v", {1}, {3}}}};
  for (const int i : {1, 2}) {
    nn::report::HeadStatistics head;
    head.layer = i, head.head = 3 * i;
    head.entropy = 0.5 * i, head.entropy_limit = 2, head.jacobian = 0.25 * i;
    head.share_below_1e3 = 0.25 / i, head.share_below_1e7 = 0.125 / i;
    head.grad_norm_q = 0.1 * i, head.grad_norm_k = 0.2 * i, head.grad_norm_v = 0.3 * i;
    record.heads.push_back(head);
    record.maps.push_back({i, 3 * i, {"a", "b"}, {"a", "b"}, {1, 0, 0.25f, 0.75f}});
  }
  for (const float weight : {0.25f, 0.75f, 1e-6f, 1e-13f, NAN}) record.weights.add(weight);
  record.prompt = "é", record.sample = "b\xff";
  record.texts = {{"1", {"a", "b"}, {0.25f, 0.75f}, 0.5}, {"2", {"c"}, {1}}};
  record.confusion = {{"yes", "no"}, {7, 1, 2, 90}};
  record.tables = {{"Load", "Tokens", "layer", "expert", {"1"}, {"a", "b"}, {1, 2}},
                   {"Sound", "", "band", "frame", {"low"}, {"0"}, {7}, true}};
  record.examples = {"Answers", {"question", "answer"}, {{"why?", "so"}}};
  record.final_validation_loss = 2.5, record.peak_memory_bytes = 1e6, record.seconds = 3;
  record.parameters = 1000;
  return record;
}

}  // namespace vitrine::test
