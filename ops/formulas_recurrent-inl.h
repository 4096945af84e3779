// One step of each recurrent cell for one channel, and its gradient, as templates on the scalar.
// The same text serves the vectors of every instruction set and CUDA. The file has no include
// guard: include it after ops/formulas-inl.h, in the same namespace.

/// Long short-term memory (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al.
/// 2000).
template <class T>
struct LstmStep {
  T input, forget, candidate, output;  ///< the gates: σ, σ, tanh, σ of their sums
  /// c = forget·c_before + input·candidate, h = output·tanh(c)
  T c, h;

  VITRINE_HD static LstmStep of(T input, T forget, T candidate, T output, T c_before) {
    const Sigmoid sigmoid;
    LstmStep s{
        sigmoid.value(input), sigmoid.value(forget), tanh(candidate), sigmoid.value(output), c_before, T(0)};
    s.c = s.forget * c_before + s.input * s.candidate;
    s.h = s.output * tanh(s.c);
    return s;
  }
};

/// The gradients of the four sums and of c_before. `dc` is the gradient of c from later steps.
template <class T>
struct LstmStepGradient {
  T input, forget, candidate, output, c_before;

  VITRINE_HD static LstmStepGradient of(const LstmStep<T>& s, T c_before, T dh, T dc) {
    const T one(1), t = tanh(s.c), total = dc + dh * s.output * (one - t * t);
    return {total * s.candidate * s.input * (one - s.input), total * c_before * s.forget * (one - s.forget),
            total * s.input * (one - s.candidate * s.candidate), dh * t * s.output * (one - s.output),
            total * s.forget};
  }
};

/// Gated recurrent unit (Cho et al. 2014), with the reset gate applied after the product, so that
/// one product serves all gates.
template <class T>
struct GruStep {
  /// `hidden`: the input of the reset gate, U·h_before + bias
  T reset, update, candidate, hidden;
  T h;  ///< (1 − update)·candidate + update·h_before

  VITRINE_HD static GruStep of(T reset, T update, T candidate, T hidden, T h_before) {
    const Sigmoid sigmoid;
    GruStep s{sigmoid.value(reset), sigmoid.value(update), T(0), hidden, T(0)};
    s.candidate = tanh(candidate + s.reset * hidden);
    s.h = (T(1) - s.update) * s.candidate + s.update * h_before;
    return s;
  }
};

/// The gradients of the three sums, of `hidden`, and of h_before along the update gate.
template <class T>
struct GruStepGradient {
  T reset, update, candidate, hidden, h_before;

  VITRINE_HD static GruStepGradient of(const GruStep<T>& s, T h_before, T dh) {
    const T one(1), d = dh * (one - s.update) * (one - s.candidate * s.candidate);
    return {d * s.hidden * s.reset * (one - s.reset),
            dh * (h_before - s.candidate) * s.update * (one - s.update), d, d * s.reset, dh * s.update};
  }
};
