// Attention by locality-sensitive hashing, the attention of the Reformer (Kitaev, Kaiser, Levskaya
// 2020): a query sees only keys with the same hash. For a given number of buckets its cost is
// linear in the sequence.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/attention/composed.h"
#include "nn/layers/linear.h"
#include "nn/mixer.h"

namespace vitrine::nn {

/// qk [B, H, T, D] and rotations [R, D, b/2] → int64 [R, B, H, T]: in each of R rounds the bucket
/// argmax[x·R; −x·R] of b. Near vectors tend to share a bucket. It has no gradient.
Tensor lsh_buckets(const Tensor& qk, const Tensor& rotations);

struct LshOptions {
  int64_t chunk = 64;
  bool causal = false;
  /// Several rounds may show the same key to a query. If true, the key counts once in each of these
  /// rounds; if false, it counts once in all.
  bool duplicates = false;
  Tensor valid = {};  ///< bool [B, T], false for padding; undefined: all positions are valid
  /// The parts of this attention replace the softmax and the read. nullptr: softmax and mean
  const ComposedAttention* parts = nullptr;
};

/// Queries are qk [B, H, T, D], keys are qk/|qk|, values v [B, H, T, Dv] → [B, H, T, Dv]. In each
/// round, positions are sorted by bucket, then by position, and cut into chunks. Query i sees key j
/// of its own bucket in its own chunk or the chunk before. It sees itself only if no round shows it
/// another key. One softmax with the scale 1/√D weighs what all rounds show. A read-out such as
/// LASER reads each round by itself, then the rounds by their sums of weights. Memory and time are
/// R·T·2·chunk: no tensor [T, T] exists. `weights`, if not null, receives [B, H, T, T] for display.
Tensor lsh_attention(const Tensor& qk, const Tensor& v, const Tensor& buckets, const LshOptions& options = {},
                     Tensor* weights = nullptr);

/// How a LshAttention hashes.
struct LshSizes {
  int64_t rounds = 4;
  int64_t chunk = 64;
  int64_t buckets = 0;  ///< even; 0: such that a bucket of the context has about `chunk` positions
};

/// Shared projections qk = x·Wᵀ and v, LSH attention, and the output projection. The rotations are
/// drawn once, with the weights, and are a buffer: every pass hashes alike. There is a qk for each
/// head; key_heads is the number of heads of v.
///
/// Decoding with a state hashes and sorts all positions so far again at each step, so a step gives
/// the last row of the pass over its prefix. This is the row of the full pass as long as the
/// sequence is one chunk; in a longer sequence, later positions move the limits of the chunks.
class LshAttention : public Mixer {
 public:
  explicit LshAttention(const MixerOptions& options, const LshSizes& sizes = {},
                        const AttentionName& parts = {});
  static const std::vector<Stage>& stages();  ///< of the parts that it accepts
  /// Errors: a source, a bias, a window, and a mask other than padding, since the pairs of
  /// positions come from the hashes.
  Tensor forward(const Tensor& x, const MixerCall& call = {}) const override;
  std::unique_ptr<DecodingState> make_state(int64_t batch, int64_t capacity) const override;
  std::string kind() const override { return "attention"; }
  std::string explain(const MixerCall& call = {}) const override;
  void fields(Fields& f) override;
  LshAttention clone();

  Linear query_key, value, out;  ///< [C, C], [Hkv·D, C] and [C, C]
  Tensor rotations;              ///< [R, D, b/2]
  ComposedAttention parts;       ///< its forward is never called

 private:
  MixerOptions options_;
  LshSizes sizes_;
};

}  // namespace vitrine::nn
