#include "nn/training/gradient_norms.h"

#include <algorithm>
#include <cmath>

#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::nn::training {
namespace {

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

PathRecorder::PathRecorder(const std::vector<std::pair<std::string, MultiHeadAttention*>>& attentions)
    : squares_(attentions.size()) {
  for (size_t i = 0; i < attentions.size(); ++i) {
    MultiHeadAttention& attention = *attentions[i].second;
    attentions_.emplace_back(&attention, attention.on_projected);
    attention.on_projected = [&squares = squares_[i], users = attention.on_projected](
                                 const Tensor& q, const Tensor& k, const Tensor& v) {
      if (users) users(q, k, v);
      Tape* tape = Tape::recording();
      if (tape == nullptr) return;  // the first run of a recomputed block
      for (auto [x, into] : {std::pair{&q, &squares.q}, {&k, &squares.k}, {&v, &squares.v}})
        if (tape->tracks(*x))
          tape->on_gradient(*x, [to = into](const Tensor& gradient) {
            *to += sum(square(cast(gradient, DType::float64))).item();
            return Tensor();
          });
    };
  }
}

void PathRecorder::add_to(std::vector<report::PathGradients>& paths, double step, double scale) const {
  for (size_t i = 0; i < squares_.size(); ++i)
    for (auto [series, squares] :
         {std::pair{&paths[i].q, squares_[i].q}, {&paths[i].k, squares_[i].k}, {&paths[i].v, squares_[i].v}})
      series->add(step, std::sqrt(squares) / scale);
}

PathRecorder::~PathRecorder() {
  // In reverse, because one attention may have two names
  for (size_t i = attentions_.size(); i-- > 0;)
    attentions_[i].first->on_projected = std::move(attentions_[i].second);
}

}  // namespace vitrine::nn::training
