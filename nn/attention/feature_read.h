// Attention in linear time: the weights are products of positive features.
//
//   w_ij = φ(q_i)·φ(k_j) / Σ_j φ(q_i)·φ(k_j)
//
// A weighted mean of the values needs one sum over the keys, S = Σ_j φ(k_j)ᵀ·[v_j, 1]. A query
// reads φ(q)·S, and divides it by its last channel.
//
// Other read-outs have no such sum. But a read of reads is a read: decode(Σ w·encode(v)) of values
// that are themselves reads is one read by the products of the weights. So the keys so far are
// summed up by one mass and one value per feature, f:
//
//   log_mass_f = log Σ_j φ(k_j)_f,    value_f = the read of v by the weights φ(k_j)_f/mass_f
//
// A query reads these F values by the softmax of log φ(q)_f + log_mass_f. The sums of two sets of
// keys are joined by reads of two values. All features are given by their logarithms and all
// weights are a softmax, so that no sum is too small to divide by. Each read has its own anchors,
// so that nothing overflows, and later keys have no part in earlier reads.
#pragma once

#include "nn/attention/read_out.h"

namespace vitrine::nn {

/// Keys, of which some may be hidden.
struct FeatureKeys {
  /// φ(k) [.., T, F], 0 for a hidden key; or log φ(k), any numbers for a hidden key
  Tensor features;
  Tensor values;  ///< [.., T, D]; not NaN for a hidden key
  Tensor seen;    ///< bool, broadcast to [.., T, 1]: false for a hidden key; undefined: all seen
};

// The weighted mean -------------------------------------------------------------------------------
/// What the queries read, and the sum over all keys.
struct MeanRead {
  Tensor y;    ///< [B, H, Tq, D]
  Tensor sum;  ///< S [B, H, F, D + 1]
};

/// Reads by φ(q) [B, H, Tq, F] and φ(k). `before`: S of earlier keys; undefined: none. Causal: the
/// last query is aligned with the last key, each query reads the keys up to its own, and the op
/// linear_scan keeps the sum. A query whose weights sum to at most smallest_total() gives about 0.
MeanRead read_mean(const Tensor& queries, const FeatureKeys& keys, const Tensor& before, bool causal);
/// The weights [B, H, Tq, Tk] of the visible keys, for display. `visible` undefined: all.
Tensor mean_weights(const Tensor& queries, const FeatureKeys& keys, const Tensor& before,
                    const Tensor& visible);

// Any other read-out: features are logarithms -----------------------------------------------------
/// The sums over a set of keys.
struct FeatureSums {
  Tensor log_mass;  ///< [.., F, 1]; −∞ without a key
  Tensor values;    ///< [.., F, D]; 0 without a key
};

/// log φ(q_i)·φ(k_j), for log φ(q) [.., Tq, F] and log φ(k) [.., Tk, F] → [.., Tq, Tk], and −∞ for
/// pairs that are not visible. `visible` undefined: all are.
Tensor log_products(const Tensor& queries, const Tensor& keys, const Tensor& visible);

/// The sums over all keys.
FeatureSums sums_of(const FeatureKeys& keys, const ReadOut& read_out);
/// The sums over both sets of keys.
FeatureSums joined(const FeatureSums& x, const FeatureSums& y, const ReadOut& read_out);
/// Every query reads all keys: log φ(q) [.., T, F] → [.., T, D].
Tensor read_sums(const Tensor& queries, const FeatureSums& sums, const ReadOut& read_out);
/// The weights [B, H, Tq, Tk] of the visible keys, for display. `before` has no tensors where there
/// are no earlier keys, `visible` is undefined where all are.
Tensor sum_weights(const Tensor& queries, const FeatureKeys& keys, const FeatureSums& before,
                   const Tensor& visible);

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

}  // namespace vitrine::nn
