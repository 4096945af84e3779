#include "nn/training/gradient_norms.h"

#include <algorithm>
#include <cmath>

#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::nn::training {
namespace {

double norm_of(const Tensor& x) { return std::sqrt(sum(square(cast(x, DType::float64))).item()); }

/// The path up to its first number, or "" if it has none.
std::string numbered_part(const std::string& path) {
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    if (path.find_first_not_of("0123456789", begin) >= end) return path.substr(0, end);
    begin = end + 1;
  }
  return "";
}

}  // namespace

std::vector<Layer> layers_of(Module& model) {
  std::vector<Layer> layers;
  for (const auto& [name, p] : model.named_parameters()) {
    const std::string path = numbered_part(name);
    if (path.empty()) continue;
    if (layers.empty() || layers.back().path != path) layers.push_back({path, {}});
    layers.back().parameters.push_back(p);
  }
  return layers;
}

std::vector<std::pair<std::string, MultiHeadAttention*>> attentions_of(Module& model) {
  std::vector<std::pair<std::string, MultiHeadAttention*>> all;
  model.apply([&all](const std::string& path, Module& module) {
    if (auto* attention = dynamic_cast<MultiHeadAttention*>(&module)) all.emplace_back(path, attention);
  });
  return all;
}

PathRecorder::PathRecorder(const std::vector<std::pair<std::string, MultiHeadAttention*>>& attentions,
                           std::vector<PathGradients>& paths, double step, double scale) {
  for (size_t i = 0; i < attentions.size(); ++i) {
    attentions_.push_back(attentions[i].second);
    attentions_.back()->on_projected = [&path = paths[i], step, scale](const Tensor& q, const Tensor& k,
                                                                       const Tensor& v) {
      Tape* tape = Tape::recording();
      if (tape == nullptr) return;  // the first run of a checkpointed block
      for (auto [x, series] : {std::pair{&q, &path.q}, {&k, &path.k}, {&v, &path.v}})
        tape->on_gradient(*x, [step, scale, into = series](const Tensor& gradient) {
          into->add(step, norm_of(gradient) / scale);
          return Tensor();
        });
    };
  }
}

PathRecorder::~PathRecorder() {
  for (MultiHeadAttention* attention : attentions_) attention->on_projected = nullptr;
}

}  // namespace vitrine::nn::training
