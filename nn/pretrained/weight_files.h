// The tensors of a folder with a pretrained model, in one file or in several shards.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/files/safetensors.h"
#include "nn/pretrained/weight_rows.h"

namespace vitrine::nn {

/// The names of the tensors of a kind of model: see PretrainedKind.
struct TensorNames {
  std::string prefix;
  std::vector<std::string> heads;
  /// The name with its prefix, which a file may leave out, and with `weight` and `bias` where an
  /// old file says `gamma` and `beta`.
  std::string full(const std::string& name) const;
};

/// model.safetensors, or the shards that model.safetensors.index.json names, mapped into memory.
class WeightFiles {
 public:
  /// Errors: neither file; an index that names a missing shard, or a tensor that its shard does not
  /// have; a tensor of a shard that the index does not name.
  WeightFiles(const std::string& folder, const TensorNames& names);
  bool has(const std::string& name) const { return places_.contains(name); }
  size_t count() const { return places_.size(); }
  /// Throws unless the tensors are those of the rows, with their shapes, in float32, float16 or
  /// bfloat16. The error names the tensors that are missing, unexpected or wrong. A tensor whose
  /// name ends with one of `ignored` is ignored.
  void check_rows(const std::vector<WeightRow>& rows, const std::vector<std::string>& ignored) const;
  /// Calls f with a tensor in mapped memory, and gives the memory back to the system.
  void with_tensor(const std::string& name, const std::function<void(const Tensor& tensor)>& f) const;

 private:
  struct Place {
    size_t shard;
    std::string name;  ///< in the shard
  };
  void add(const std::string& file, const TensorNames& names);

  std::string folder_;
  std::vector<MappedSafetensors> shards_;
  std::map<std::string, Place> places_;  ///< by full name
};

/// A tensor to be written, by name.
using LateTensors = std::vector<std::pair<std::string, LateTensor>>;
/// Writes the tensors to model.safetensors or, if they have more bytes than `most`, to shards of at
/// most so many bytes (or of one tensor) and an index. Removes the files of an earlier model that
/// would be read in place of these.
void write_weight_files(const std::string& folder, const LateTensors& tensors, int64_t most);

}  // namespace vitrine::nn
