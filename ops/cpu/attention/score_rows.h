// The rows of a tile of scores: softmax and its backward, all rows in one call. With a call per row
// and step, short sequences would spend more time in calls than in arithmetic.
//
// S, the type of weights and of gradients of scores, is float, double or bfloat16. Scores and
// products are in T = AccumulatorOf<S>.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/dtype.h"

namespace vitrine::cpu {

/// The tiles of a head depend only on its shape, so results have the same bits on any number of
/// threads.
constexpr int64_t kKeysPerBlock = 256, kMostQueries = 64;

/// The visible columns [begin, end) of a row. Other columns of scores are not read.
struct Visible {
  int64_t begin, end;
  int64_t size() const { return std::max<int64_t>(0, end - begin); }
};

/// Arrays [rows, columns] with rows `stride` elements apart, and what is visible in each row.
struct ScoreRows {
  int64_t rows, columns, stride;
  const Visible* seen;
};

/// What a query has read so far: the largest score, Σ e^(s − largest), the same sum of weights that
/// were rounded to S, and the factor by which the last block scaled the sums of earlier blocks.
template <class T>
struct RunningSoftmax {
  T largest, total, rounded_total, factor;
};

/// w = e^(s − largest), rounded to S, and 0 for hidden keys; w may be s. Brings `running` [rows] up
/// to date. Sums of weights times values are averages if they are divided by the rounded total.
template <class S>
void attention_weights(const ScoreRows& at, S* w, const AccumulatorOf<S>* s,
                       RunningSoftmax<AccumulatorOf<S>>* running);

/// The arrays of the backward; `slope` and `exact` may be null.
template <class S>
struct ScoreBackward {
  using T = AccumulatorOf<S>;
  S *w, *ds;               ///< results; with S = T they may be s and dp
  const T *s, *dp;         ///< scores, and the gradients of weights
  const T* lse;            ///< log Σ e^s of each row
  const T* correction;     ///< D of each row; null: Σ w·dp/Σ w, from the row itself
  const T* dlse;           ///< the gradient of lse of each row; null: 0
  const T *slope, *exact;  ///< the softcap's derivative; what is added to ds before it
  T* dbias;                ///< result, rows dbias_stride apart: ds before `slope`; null: not wanted
  int64_t dbias_stride;
};
/// w = e^(s − lse) and ds = (w·(dp − D + dlse) + exact)·slope, both rounded to S and 0 for hidden
/// keys, which `dbias` leaves as they are.
template <class S>
void attention_score_gradients(const ScoreRows& at, const ScoreBackward<S>& x);

/// y = x·factor of each row, rounded to S; `error` (may be null) receives what rounding lost.
/// Strides are distances of rows.
template <class S>
void scale_rows(int64_t rows, int64_t columns, S* y, S* error, int64_t stride_y, int64_t stride_error,
                const AccumulatorOf<S>* x, int64_t stride_x, const AccumulatorOf<S>* factor);

}  // namespace vitrine::cpu
