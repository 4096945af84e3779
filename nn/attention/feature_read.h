// Attention in linear time: the weights are products of positive features, and any read-out reads
// by them.
//
//   w_ij = φ(q_i)·φ(k_j) / Σ_j φ(q_i)·φ(k_j)
//
// A read of reads is a read: decode(Σ w·encode(v)) of values that are themselves reads is one read
// by the products of the weights. So the keys so far are summed up by one mass and one value per
// feature, f:
//
//   mass_f = Σ_j φ(k_j)_f,    value_f = the read of v by the weights φ(k_j)_f/mass_f
//
// A query reads these F values by the weights φ(q)_f·mass_f, divided by their sum. The sums of two
// sets of keys are joined by reads of two values. Each read has its own anchors, so nothing
// overflows, and later keys have no part in earlier reads.
#pragma once

#include "nn/attention/read_out.h"

namespace vitrine::nn {

/// The sums over a set of keys.
struct FeatureSums {
  Tensor mass;    ///< [.., F, 1]
  Tensor values;  ///< [.., F, D]; 0 where the mass is 0
};

/// Keys, of which some may be hidden.
struct FeatureKeys {
  Tensor features;  ///< φ(k) ≥ 0 [.., T, F]; 0 for a hidden key
  Tensor values;    ///< [.., T, D]
  Tensor seen;      ///< bool, broadcast to [.., T, 1]: false for a hidden key; undefined: all seen
};

/// The sums over all keys.
FeatureSums sums_of(const FeatureKeys& keys, const ReadOut& read_out);
/// The sums over both sets of keys.
FeatureSums joined(const FeatureSums& x, const FeatureSums& y, const ReadOut& read_out);
/// Every query reads all keys: features of queries φ(q) [.., T, F] → [.., T, D]. A query whose
/// weights sum to at most smallest_total() gives about 0.
Tensor read_sums(const Tensor& queries, const FeatureSums& sums, const ReadOut& read_out);

/// What the queries read, and the sums after the last key.
struct CausalRead {
  Tensor y;           ///< [B, H, Tq, D]
  FeatureSums after;  ///< [B, H, F, ..]
};

/// The last query is aligned with the last key; each query reads the keys up to its own, and the
/// sums `before` of earlier keys, undefined for none. The time is linear in T: a query reads the
/// keys of its block one by one, and all blocks before by their sums. The sums of all prefixes of
/// blocks need two joins per block, in 2·log₂ of the number of blocks steps (Blelloch 1990).
CausalRead causal_read(const Tensor& queries, const FeatureKeys& keys, const FeatureSums& before,
                       const ReadOut& read_out, int64_t block = 64);
/// The same for the weighted mean of the values, by the op linear_scan.
CausalRead causal_mean(const Tensor& queries, const FeatureKeys& keys, const FeatureSums& before);

}  // namespace vitrine::nn
