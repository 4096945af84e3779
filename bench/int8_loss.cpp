// What rounded weights cost: the validation perplexity of a trained model with float32 weights,
// with bfloat16 weights, and with linear layers of 8 bits. The text is the one that train_gpt reads
// by default, or another. Its last tenth is the validation split, as there.
//
//   build/examples/train_gpt --steps 2000
//   build/bench/int8_loss reports/standard.safetensors
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

#include "core/tape.h"
#include "examples/default_text.h"
#include "nn/metrics/perplexity.h"
#include "nn/training/checkpoint.h"
#include "nn/training/tasks/language_modeling.h"

using namespace vitrine;

namespace {

/// The mean cross-entropy of all windows of the validation split, in nats per character.
double validation_loss(nn::Gpt& model, const nn::Tokens& tokens) {
  const nn::ModeScope evaluation(model, false);
  const auto cut = static_cast<int64_t>(0.9 * static_cast<double>(tokens.size()));
  const auto task =
      nn::training::language_modeling(model, tokens.slice(0, cut), tokens.slice(cut, tokens.size()), 12, 1);
  double sum = 0, count = 0;
  for (const auto& batch : task.validation()) {
    const auto weight = static_cast<double>(batch.tokens);
    sum += weight * task.loss(batch.tensors).item();
    count += weight;
  }
  return sum / count;
}

void print(const char* weights, double loss, double loss_of_float32) {
  const double change = 100 * (nn::perplexity(loss) / nn::perplexity(loss_of_float32) - 1);
  fmt::print("{:<10}{:>14.6f}{:>14.4f}{:>+13.3f} %\n", weights, loss, nn::perplexity(loss), change);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The validation perplexity of a trained model with rounded weights");
  std::string checkpoint, data;
  app.add_option("checkpoint", checkpoint, "A file that train_gpt has saved")->required();
  app.add_option("--data", data, "The text; by default a snapshot of Vitrine's own source");
  CLI11_PARSE(app, argc, argv);

  auto [model, tokenizer] = nn::training::load_text_model(checkpoint);
  const nn::Tokens tokens = tokenizer->encode(data.empty() ? examples::default_text() : nn::read_text(data));
  fmt::print("{:<10}{:>14}{:>14}{:>15}\n", "weights", "loss", "perplexity", "change");
  const double loss = validation_loss(model, tokens);
  print("float32", loss, loss);
  nn::Gpt narrow = model.clone();
  narrow.to(DType::bfloat16);
  print("bfloat16", validation_loss(narrow, tokens), loss);
  nn::quantize_linear_layers(model);
  print("int8", validation_loss(model, tokens), loss);
  return 0;
}
