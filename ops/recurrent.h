// Recurrent cells over a sequence: the state of each position is computed from the state before it.
#pragma once

#include <vector>

#include "core/tensor.h"

namespace vitrine {

struct RecurrentOptions {
  /// int64 [B]: row b has lengths[b] positions, and the state does not change at later ones.
  /// Undefined: all rows have T positions.
  Tensor lengths = {};
  bool reverse = false;  ///< from each row's last position to its first
};

/// The hidden state and the cell state at every position, [B, T, C] each.
struct LstmStates {
  Tensor h, c;
  std::vector<Tensor> tensors() const { return {h, c}; }
};

/// Long short-term memory. With [i, f, g, o] = x_t + h·recurrentᵀ, where h and c are the states of
/// the previous position,
///   c_t = σ(f)·c + σ(i)·tanh(g)        h_t = σ(o)·tanh(c_t)
/// x [B, T, 4C], recurrent [4C, C]; h0 and c0 [B, C], 0 if undefined. The cell state is float32 if
/// x has 16 bits. Saves the gates and both states. Errors: shapes that do not match. Hochreiter and
/// Schmidhuber 1997; Gers et al. 2000.
LstmStates lstm(const Tensor& x, const Tensor& recurrent, const Tensor& h0 = {}, const Tensor& c0 = {},
                const RecurrentOptions& options = {});

/// Gated recurrent unit. With [r, z, n] = x_t, [r', z', n'] = h·recurrentᵀ and the state h of the
/// previous position,
///   h_t = (1 − u)·tanh(n + σ(r + r')·(n' + bias)) + u·h,   u = σ(z + z')
/// x [B, T, 3C], recurrent [3C, C], bias [C] and h0 [B, C] (0 if undefined) → h [B, T, C]. Saves
/// the gates and the states. Errors: shapes that do not match. Cho et al. 2014, with the reset gate
/// applied after the product.
Tensor gru(const Tensor& x, const Tensor& recurrent, const Tensor& bias = {}, const Tensor& h0 = {},
           const RecurrentOptions& options = {});

namespace define {
LstmStates lstm(const Tensor& x, const Tensor& recurrent, const Tensor& h0, const Tensor& c0,
                const RecurrentOptions& options = {});
Tensor gru(const Tensor& x, const Tensor& recurrent, const Tensor& bias, const Tensor& h0,
           const RecurrentOptions& options = {});
}  // namespace define

}  // namespace vitrine
