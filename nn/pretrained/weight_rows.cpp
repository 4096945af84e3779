#include "nn/pretrained/weight_rows.h"

#include "ops/view.h"

namespace vitrine::nn {

Tensor WeightRow::part_of(const Tensor& parameter) const {
  const Tensor rows = end > 0 ? slice(parameter, 0, begin, end) : parameter;
  return transposed ? transpose(rows) : reshape(rows, shape);
}

void WeightRows::one(const std::string& theirs, const std::string& ours, const Shape& shape) {
  rows.push_back({theirs, ours, shape});
}

void WeightRows::norm(const std::string& theirs, const std::string& ours, int64_t width, bool bias) {
  one(theirs + ".weight", ours + ".weight", {width});
  if (bias) one(theirs + ".bias", ours + ".bias", {width});
}

void WeightRows::linear(const std::string& theirs, const std::string& ours, int64_t in, int64_t out,
                        bool bias) {
  one(theirs + ".weight", ours + ".weight", {out, in});
  if (bias) one(theirs + ".bias", ours + ".bias", {out});
}

void WeightRows::transposed(const std::string& theirs, const std::string& ours, int64_t in, int64_t out) {
  rows.push_back(
      {.theirs = theirs + ".weight", .ours = ours + ".weight", .shape = {in, out}, .transposed = true});
  one(theirs + ".bias", ours + ".bias", {out});
}

void WeightRows::joined(const std::vector<Layer>& layers, const std::string& ours, int64_t in, bool bias) {
  int64_t begin = 0;
  for (const Layer& layer : layers) {
    const int64_t end = begin + layer.out;
    rows.push_back({layer.theirs + ".weight", ours + ".weight", {layer.out, in}, begin, end});
    if (bias) rows.push_back({layer.theirs + ".bias", ours + ".bias", {layer.out}, begin, end});
    begin = end;
  }
}

}  // namespace vitrine::nn
