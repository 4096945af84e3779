// Which tensor of a file is which part of which parameter. One table of rows loads and saves.
#pragma once

#include <string>
#include <vector>

#include "core/parameter.h"

namespace vitrine::nn {

/// A tensor of a file, and the part of a parameter that has its numbers.
struct WeightRow {
  std::string theirs;  ///< "model.layers.0.self_attn.k_proj.weight"
  std::string ours;    ///< "blocks.0.attention.query_key_value.weight"
  Shape shape = {};    ///< in the file
  /// The rows of the parameter; end = 0: all. Queries, keys and values share a parameter.
  int64_t begin = 0, end = 0;
  bool transposed = false;  ///< the file has [in, out] where the parameter has [out, in]

  /// The part of the parameter, as a view in the file's shape: what is written into it is in the
  /// parameter.
  Tensor part_of(const Tensor& parameter) const;
};

/// A table of rows, in the making.
class WeightRows {
 public:
  /// A parameter in one piece, or reshaped.
  void one(const std::string& theirs, const std::string& ours, const Shape& shape);
  /// Gain and bias of a norm of `width` channels.
  void norm(const std::string& theirs, const std::string& ours, int64_t width, bool bias = true);
  /// Weight and bias of a linear layer `in` → `out`.
  void linear(const std::string& theirs, const std::string& ours, int64_t in, int64_t out, bool bias = true);
  /// The same where the file has the weight as [in, out].
  void transposed(const std::string& theirs, const std::string& ours, int64_t in, int64_t out);
  /// Several layers of the file that are one layer of ours, one below the other: each with its
  /// number of outputs.
  struct Layer {
    std::string theirs;
    int64_t out;
  };
  void joined(const std::vector<Layer>& layers, const std::string& ours, int64_t in, bool bias = true);

  std::vector<WeightRow> rows;
};

}  // namespace vitrine::nn
