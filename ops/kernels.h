// All kernels of the operations, declared once for CPU and CUDA (core/kernel_macros.h). The op
// checks its arguments and allocates; the kernel only computes. CPU kernels are in the op's file
// or, if tuned, in ops/cpu/. CUDA kernels are in cuda/ under the same file name.
//
// Tensors are contiguous unless a comment says otherwise. Statistics have the wide dtype of their
// input (float32 for the 16-bit types).
#pragma once

#include <optional>

#include "core/tensor_kernels.h"
#include "ops/attention.h"
#include "ops/formulas.h"
#include "ops/windows.h"

namespace vitrine {

// -- Elementwise: equal shapes, any strides (broadcast operands are expanded views), one dtype

/// y = f(x); y may be x. `a` and `b` are the formula's parameters.
VITRINE_KERNEL(unary, Tensor& y, const Tensor& x, Unary op, double a, double b);
/// dx = dy·f'(x), where y = f(x).
VITRINE_KERNEL(unary_backward, Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& y, Unary op,
               double a, double b);
/// z = f(x, y); z may be x or y.
VITRINE_KERNEL(binary, Tensor& z, const Tensor& x, const Tensor& y, Binary op);
/// z (bool) = x op y.
VITRINE_KERNEL(compare, Tensor& z, const Tensor& x, const Tensor& y, Comparison op);
/// z = x op y, all bool.
VITRINE_KERNEL(logic, Tensor& z, const Tensor& x, const Tensor& y, Logic op);
/// z = condition ? x : y.
VITRINE_KERNEL(choose, Tensor& z, const Tensor& condition, const Tensor& x, const Tensor& y);

// -- Matrix products

/// z = x·y, or z += x·y if `add`, over the last two axes. The leading axes of x and y broadcast to
/// those of z. One of the last two strides of x is 1, and likewise for y. z may be float32 for
/// 16-bit x and y.
VITRINE_KERNEL(matmul, Tensor& z, const Tensor& x, const Tensor& y, bool add);
/// y = x·weightᵀ + bias: x [rows, in], weight [out, in] contiguous, bias [out] or undefined.
VITRINE_KERNEL(linear, Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias);
/// The same, and active = gelu_tanh(y), computed from the stored y or from the sum before it was
/// rounded to y.
VITRINE_KERNEL(linear_gelu_tanh, Tensor& active, Tensor& y, const Tensor& x, const Tensor& weight,
               const Tensor& bias);

// -- Reductions: x [outer, n, inner] to y [outer, inner]

/// y = Σ x over n, in x's wide dtype; int64 for bool and integers.
VITRINE_KERNEL(sum, Tensor& y, const Tensor& x);
/// The largest and smallest element; n ≥ 1. NaN if any element is NaN.
VITRINE_KERNEL(max, Tensor& y, const Tensor& x);
VITRINE_KERNEL(min, Tensor& y, const Tensor& x);
/// y (bool): whether any element, or every element, is nonzero.
VITRINE_KERNEL(any, Tensor& y, const Tensor& x);
VITRINE_KERNEL(all, Tensor& y, const Tensor& x);
/// y (int64): the index of the first largest (smallest) element, or of the first NaN if there is
/// one; n ≥ 1.
VITRINE_KERNEL(argmax, Tensor& y, const Tensor& x);
VITRINE_KERNEL(argmin, Tensor& y, const Tensor& x);
/// y [outer, n, inner]: running sums over n, from the end if `reverse`, and without the element
/// itself if `exclusive`.
VITRINE_KERNEL(cumsum, Tensor& y, const Tensor& x, bool exclusive, bool reverse);

// -- Softmax: over the last axis

/// y = e^(x − lse); 0 in a row of only −∞.
VITRINE_KERNEL(softmax, Tensor& y, const Tensor& x);
/// dx = y·(dy − Σ dy·y).
VITRINE_KERNEL(softmax_backward, Tensor& dx, const Tensor& dy, const Tensor& y);
/// y = x − lse; −∞ in a row of only −∞.
VITRINE_KERNEL(log_softmax, Tensor& y, const Tensor& x);
/// dx = dy − e^y·Σ dy; 0 in a row of only −∞.
VITRINE_KERNEL(log_softmax_backward, Tensor& dx, const Tensor& dy, const Tensor& y);
/// y = log Σ eˣ, one per row; shift and total (statistics): y = shift + log(total).
VITRINE_KERNEL(log_sum_exp, Tensor& y, Tensor& shift, Tensor& total, const Tensor& x);
/// dx = dy·e^(x − shift)/total; 0 in a row of only −∞, whose total is 0.
VITRINE_KERNEL(log_sum_exp_backward, Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& shift,
               const Tensor& total);

// -- Attention: q, y, dq, dy [B, H, Tq, ·], k, v, dk, dv [B, Hkv, Tk, ·] with contiguous rows, lse
// [B, H, Tq], all in one dtype, which on the CPU is not float16. lse, `kept` of LASER, bias
// and slopes have its wide dtype. bias and allowed (bool) are expanded views of [B, H, Tq, Tk],
// slopes is [H]; they are undefined if not used.

/// y = softmax(form(q·kᵀ))·v, or LASER's log of softmax·eᵛ. lse = log Σ e^scores per row, −∞ if no
/// key is visible. `kept`, like y, is for the same device's backward. For LASER it holds the sums
/// whose logarithm y is or, on a GPU, that logarithm. For a mean it holds y's rounding error, and
/// is undefined if y is wide or no backward follows. A GPU's naive step does not use it.
VITRINE_KERNEL(attention, Tensor& y, Tensor& lse, Tensor& kept, const Tensor& q, const Tensor& k,
               const Tensor& v, const Tensor& bias, const Tensor& slopes, const Tensor& allowed,
               const AttentionForm& form);
/// `y` is read only for a mean. `dbias` receives the gradients of the scores after the softcap,
/// contiguous [B, H, Tq, Tk] in the wide dtype, or is undefined. `dlse`, contiguous [B, H, Tq], is
/// the gradient of lse, or undefined for 0.
VITRINE_KERNEL(attention_backward, Tensor& dq, Tensor& dk, Tensor& dv, Tensor& dbias, const Tensor& dy,
               const Tensor& dlse, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& y,
               const Tensor& kept, const Tensor& lse, const Tensor& bias, const Tensor& slopes,
               const Tensor& allowed, const AttentionForm& form);

// -- The scores of additive attention. All tensors are contiguous in one wide dtype. q [N, A, Tq]
// and k [N, A, Tk] are transposed, so that the positions of a channel are next to each other; w and
// dw [N, A], s and ds [N, Tq, Tk].

/// s_ij = Σ_a w_a·tanh(q_ai + k_aj).
VITRINE_KERNEL(additive_scores, Tensor& s, const Tensor& q, const Tensor& k, const Tensor& w);
/// With t = tanh(q_ai + k_aj): dq_ai = w_a·Σ_j ds_ij·(1 − t²), dk_aj = w_a·Σ_i ds_ij·(1 − t²),
/// dw_a = Σ_ij ds_ij·t.
VITRINE_KERNEL(additive_scores_backward, Tensor& dq, Tensor& dk, Tensor& dw, const Tensor& ds,
               const Tensor& q, const Tensor& k, const Tensor& w);

/// y [.., rows + columns − 1] receives the sums of the diagonals of x [.., rows, columns], both
/// contiguous in one wide dtype and not empty along the last two axes.
VITRINE_KERNEL(sum_diagonals, Tensor& y, const Tensor& x);

// -- Normalization: x [..., C]; mean, rstd [rows], weight, bias and their gradients [C], all in
// the wide dtype

/// y = (x − mean)·rstd·weight + bias with rstd = 1/√(variance + eps).
VITRINE_KERNEL(layer_norm, Tensor& y, Tensor& mean, Tensor& rstd, const Tensor& x, const Tensor& weight,
               const Tensor& bias, double eps);
/// y = x·rstd·weight with rstd = 1/√(average x² + eps).
VITRINE_KERNEL(rms_norm, Tensor& y, Tensor& rstd, const Tensor& x, const Tensor& weight, double eps);
/// sum = x + residual, and y is the norm of sum: layer_norm, or rms_norm if `mean` and `bias` are
/// undefined.
VITRINE_KERNEL(add_norm, Tensor& sum, Tensor& y, Tensor& mean, Tensor& rstd, const Tensor& x,
               const Tensor& residual, const Tensor& weight, const Tensor& bias, double eps);
/// The backward of all these norms: dx, dweight = Σ dy·x̂ and dbias = Σ dy over rows. dweight and
/// dbias are undefined if not needed. dsum, if defined, is the gradient from other uses of x; it is
/// added to dx. `mean` is undefined for rms_norm.
VITRINE_KERNEL(norm_backward, Tensor& dx, Tensor& dweight, Tensor& dbias, const Tensor& dy,
               const Tensor& dsum, const Tensor& x, const Tensor& mean, const Tensor& rstd,
               const Tensor& weight);

// -- Rotary positions

/// Rotates each pair (l, h) of channels of x [.., 2n]: y has (l·cos − h·sin, h·cos + l·sin), or the
/// same with −sin if `back`. Pair i is channels i and n + i, or 2i and 2i + 1 if `interleaved`.
/// cosine and sine [.., n] are expanded views in x's wide dtype, with contiguous rows; x and y have
/// any strides.
VITRINE_KERNEL(rotary, Tensor& y, const Tensor& x, const Tensor& cosine, const Tensor& sine, bool interleaved,
               bool back);

// -- Recurrent cells: one position t of all sequences. Tensors are [B, ·] with contiguous rows. h,
// x, dx and dh_t have one dtype; gates, c, the product and the running gradients have its wide
// dtype. lengths (int64 [B]) may be undefined; in a row with lengths[b] ≤ t the states do not
// change, and its gates are not written. Formulas: ops/formulas_recurrent-inl.h.

/// gates [B, 4C] = [σ(i), σ(f), tanh(g), σ(o)] of x + product [B, 4C], and the states h and c after
/// this position.
VITRINE_KERNEL(lstm_cell, Tensor& h, Tensor& c, Tensor& gates, const Tensor& x, const Tensor& product,
               const Tensor& h_before, const Tensor& c_before, const Tensor& lengths, int64_t t);
/// dx [B, 4C]: the gradient of the four sums. dh and dc are running gradients: on entry those of
/// the states after this position, on return those of the states before it. dc is then complete; dh
/// lacks the part through the product. dh_t and dc_t may be undefined.
VITRINE_KERNEL(lstm_cell_backward, Tensor& dx, Tensor& dh, Tensor& dc, const Tensor& dh_t, const Tensor& dc_t,
               const Tensor& gates, const Tensor& c, const Tensor& c_before, const Tensor& lengths,
               int64_t t);
/// gates [B, 4C] = [r, u, candidate, n' + bias] of x [B, 3C] and product [B, 3C], and the state h
/// after this position. bias [C] may be undefined.
VITRINE_KERNEL(gru_cell, Tensor& h, Tensor& gates, const Tensor& x, const Tensor& product, const Tensor& bias,
               const Tensor& h_before, const Tensor& lengths, int64_t t);
/// dx and dproduct [B, 3C]; dh as in lstm_cell_backward.
VITRINE_KERNEL(gru_cell_backward, Tensor& dx, Tensor& dproduct, Tensor& dh, const Tensor& dh_t,
               const Tensor& gates, const Tensor& h_before, const Tensor& lengths, int64_t t);

// -- Convolutions: images x and dx [N, C, H, W], y and dy [N, O, H', W'], where H' and W' are the
// numbers of windows; weight [O, C/groups, kernel of rows, kernel of columns]. Padding is 0.

/// y[n, o] = bias[o] + Σ over the group's channels c and over taps of weight[o, c, tap]·x[n, c, …].
/// bias [O] has the wide dtype, and may be undefined.
VITRINE_KERNEL(convolution, Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias,
               const Windows& windows);
/// dx, in the wide dtype: each window adds dy·weight to the elements that it has read.
VITRINE_KERNEL(convolution_backward_x, Tensor& dx, const Tensor& dy, const Tensor& weight,
               const Windows& windows);
/// dweight, in the wide dtype: Σ over images and windows of dy·x.
VITRINE_KERNEL(convolution_backward_weight, Tensor& dweight, const Tensor& dy, const Tensor& x,
               const Windows& windows);

/// y = the largest element of each window, or NaN if there is one. chosen (int64, like y): its
/// position in [0, H·W), the first of equal ones. A window of only padding gives −∞ and −1.
VITRINE_KERNEL(max_pool, Tensor& y, Tensor& chosen, const Tensor& x, const Windows& windows);
/// dx = Σ of dy over the windows that chose the element.
VITRINE_KERNEL(max_pool_backward, Tensor& dx, const Tensor& dy, const Tensor& chosen, const Windows& windows);
// -- Linear recurrences over a matrix S [dk, dv] for each of B·H heads (ops/linear_scan.h). q, k,
// erase_to, erase_from and their gradients are [B, H, T, dk], v, y and theirs [B, H, T, dv]. Inputs
// have contiguous rows and any other strides. log_decay is contiguous, [B, H, T] or [B, H, T, dk].
// Log decays, states, `erased` and `added` have the wide dtype. What erases is undefined if nothing
// is erased, log_decay and dlog_decay if there is no decay or its gradient is not needed.

/// The number of positions after which a state is kept for the backward.
inline constexpr int64_t kScanChunk = 64;

/// y and the state after the last position. For the backward, if they are defined: erased [B, H, T,
/// dv] is erase_from·S at each position, boundaries [B, H, ⌈T/kScanChunk⌉, dk, dv] the state before
/// each chunk.
VITRINE_KERNEL(linear_scan, Tensor& y, Tensor& state, Tensor& erased, Tensor& boundaries, const Tensor& q,
               const Tensor& k, const Tensor& v, const Tensor& log_decay, const Tensor& erase_to,
               const Tensor& erase_from, const Tensor& first, double scale);
/// From the last position to the first: dv = k·dS, added [B, H, T, dv] = erase_to·dS, and the
/// gradient of the first state.
VITRINE_KERNEL(linear_scan_backward_columns, Tensor& dv, Tensor& added, Tensor& dfirst, const Tensor& dy,
               const Tensor& dstate, const Tensor& q, const Tensor& k, const Tensor& log_decay,
               const Tensor& erase_to, const Tensor& erase_from, double scale);
/// The gradients that are sums over the columns of S and dS.
VITRINE_KERNEL(linear_scan_backward_rows, Tensor& dq, Tensor& dk, Tensor& dlog_decay, Tensor& derase_to,
               Tensor& derase_from, const Tensor& dy, const Tensor& dstate, const Tensor& q, const Tensor& k,
               const Tensor& v, const Tensor& log_decay, const Tensor& erase_to, const Tensor& erase_from,
               const Tensor& erased, const Tensor& added, const Tensor& boundaries, double scale);

// -- Selective scan (ops/selective_scan.h): u, delta, y and their gradients [B, T, D], b, c and
// theirs [B, T, N], one dtype. a [D, N], skip [D] (may be undefined) and states [B, D, N] have the
// wide dtype.

/// y and the state after the last position; boundaries [B, ⌈T/kScanChunk⌉, D, N], if defined: the
/// state before each chunk.
VITRINE_KERNEL(selective_scan, Tensor& y, Tensor& state, Tensor& boundaries, const Tensor& u,
               const Tensor& delta, const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& skip,
               const Tensor& first);
/// Parts of sums: da [B, D, N] and dskip [B, D] of each row; db and dc [B, ⌈D/kScanChannels⌉, T, N]
/// of each kScanChannels channels, in the wide dtype. If skip is undefined, so is dskip.
VITRINE_KERNEL(selective_scan_backward, Tensor& du, Tensor& ddelta, Tensor& da, Tensor& db, Tensor& dc,
               Tensor& dskip, Tensor& dfirst, const Tensor& dy, const Tensor& dstate, const Tensor& u,
               const Tensor& delta, const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& skip,
               const Tensor& boundaries);
inline constexpr int64_t kScanChannels = 64;

// -- The average of RWKV-4 (ops/wkv.h): k, v, y and their gradients [B, T, C], one dtype; decay and
// bonus [C], means and log weights [B, C] in the wide dtype.

/// y and the state after the last position; boundaries [2, B, ⌈T/kScanChunk⌉, C], if defined: the
/// means and the log weights before each chunk.
VITRINE_KERNEL(wkv, Tensor& y, Tensor& mean, Tensor& log_weight, Tensor& boundaries, const Tensor& k,
               const Tensor& v, const Tensor& decay, const Tensor& bonus, const Tensor& first_mean,
               const Tensor& first_log_weight);
/// ddecay and dbonus [B, C] are of each row of the batch.
VITRINE_KERNEL(wkv_backward, Tensor& dk, Tensor& dv, Tensor& ddecay, Tensor& dbonus, Tensor& dmean,
               Tensor& dlog_weight, const Tensor& dy, const Tensor& dmean_after,
               const Tensor& dlog_weight_after, const Tensor& k, const Tensor& v, const Tensor& decay,
               const Tensor& bonus, const Tensor& boundaries);

// -- Losses: logits and their gradient [rows, V], each row contiguous; targets (int64), losses
// and statistics [rows]

/// losses = log Σ e^logits − logits[target]. With smoothing s: (1 − s) times this loss, plus s
/// times its average over all classes as targets. 0 where the target is `ignore`. shift and total
/// are as in log_sum_exp.
VITRINE_KERNEL(cross_entropy, Tensor& losses, Tensor& shift, Tensor& total, const Tensor& logits,
               const Tensor& targets, int64_t ignore, double label_smoothing);
/// dx = dlosses·(softmax(logits) − target distribution); 0 in ignored rows and in rows of only −∞.
VITRINE_KERNEL(cross_entropy_backward, Tensor& dx, const Tensor& dlosses, const Tensor& logits,
               const Tensor& targets, const Tensor& shift, const Tensor& total, int64_t ignore,
               double label_smoothing);

/// Checks that every element of x (contiguous, any real dtype) is in [0, 1]. Otherwise an error
/// names `op` and `argument` (literals); on a GPU the next call that waits reports it.
VITRINE_KERNEL(check_shares, const Tensor& x, const char* op, const char* argument);

// -- Indices (int64, checked); any strides, equal devices

/// Which indices an op accepts.
struct IndexRule {
  const char *op, *argument;           ///< for messages; literals
  int64_t limit;                       ///< indices are less than this
  bool negative = false;               ///< −limit … −1 count from the end
  std::optional<int64_t> except = {};  ///< an additional index that is allowed, and kept unchanged
};
/// y (int64, contiguous) = index (int64 or int32), with negative indices counted from the end. An
/// index out of range is an error. On a GPU the next call that waits reports it; until then the
/// index counts as `except`, or 0.
VITRINE_KERNEL(check_index, Tensor& y, const Tensor& index, const IndexRule& rule);

/// y[…, i, …] = x[…, index[…, i, …], …] along an axis, for all positions of index.
VITRINE_KERNEL(gather, Tensor& y, const Tensor& x, const Tensor& index, int axis);
/// y[…, index[…, i, …], …] += source[…, i, …], in the order of i; y has the wide dtype of source.
VITRINE_KERNEL(scatter_add, Tensor& y, const Tensor& index, const Tensor& source, int axis);
/// indices [..., k]: the positions of the first k elements of each row of x [..., n] in sorted
/// order; stable, NaN last.
VITRINE_KERNEL(argsort, Tensor& indices, const Tensor& x, bool descending);

// -- Random draws by weights [..., V] (float64). Random number i has the counter draw.offset + i
// (to_fine_uniform).

/// A weight that is negative or not finite is an error, and so is a row with too few weights above
/// 0 for `count` draws. On a GPU the next call that waits reports it; until then such a weight is
/// 0.
VITRINE_KERNEL(check_weights, Tensor& weights, int64_t count, bool replacement);
/// sums [..., ⌈V/32⌉]: the sum of each 32 neighbours (ops/formulas_multinomial.h).
VITRINE_KERNEL(sum_neighbours, Tensor& sums, const Tensor& weights);
/// drawn [..., count]: the index of draw i in its row of sums[0], the weights. sums[k + 1] is
/// sum_neighbours of sums[k]; the last one has one element per row.
VITRINE_KERNEL(draw_indices, Tensor& drawn, const std::vector<Tensor>& sums, Draw draw);
/// The time of the first event of a random process with `weights` events per second on average; NaN
/// if there is none.
VITRINE_KERNEL(first_times, Tensor& times, const Tensor& weights, Draw draw);

// -- Dropout

/// y = x·scale for kept elements, else 0. Element i is dropped if its uniform number
/// (core/philox.h: word i % 4 of counter draw.offset + i/4) is below p.
VITRINE_KERNEL(dropout, Tensor& y, const Tensor& x, double p, double scale, Draw draw);

}  // namespace vitrine
