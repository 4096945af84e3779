// One position of wkv (ops/wkv.h) for one channel, and its gradient, as templates on the scalar.
// The same text serves the vectors of every instruction set and CUDA. The file has no include
// guard: include it after ops/formulas-inl.h, in the same namespace.

/// `mean` and `log_weight` are the state before the position on entry, and after it in the result.
template <class T>
struct WkvStep {
  T y, mean, log_weight;
  T own;    ///< the share of v in y
  T taken;  ///< the share of v in the state after the position

  VITRINE_HD static WkvStep of(T k, T v, T decay, T bonus, T mean, T log_weight) {
    const Sigmoid sigmoid;
    const T left = log_weight + decay;
    WkvStep s{T(0), T(0), T(0), sigmoid.value(bonus + k - log_weight), sigmoid.value(k - left)};
    s.y = mean + s.own * (v - mean);
    s.mean = mean + s.taken * (v - mean);
    // log(e^left + e^k)
    s.log_weight = select(left > k, left, k) + log1p(exp(minus_abs(left - k)));
    return s;
  }
};

/// The gradients of the arguments of a step. dmean and dlog_weight are those of the state after it.
template <class T>
struct WkvStepGradient {
  T k, v, decay, bonus, mean, log_weight;

  VITRINE_HD static WkvStepGradient of(const WkvStep<T>& s, T v, T mean, T dy, T dmean, T dlog_weight) {
    const T one(1), apart = v - mean, of_own = dy * apart * s.own * (one - s.own),
                    of_taken = dmean * apart * s.taken * (one - s.taken),
                    left = dlog_weight * (one - s.taken);
    return {
        of_own + of_taken + dlog_weight * s.taken,    dy * s.own + dmean * s.taken, left - of_taken, of_own,
        dy * (one - s.own) + dmean * (one - s.taken), left - of_taken - of_own};
  }
};
