// Every elementwise function as one formula: its value and its derivative, as templates on the
// scalar. The same text serves float and double, Dual, the vectors of every instruction set
// (ops/cpu/elementwise_*.cpp) and CUDA. It has no include guard: include it inside the namespace
// whose exp, log, select and so on it should use (ops/formulas.h for scalars).
//
// value(x) is f(x). derivative(x, y) is f'(x); it may use y = f(x), unless y's rounding to 16 bits
// would matter (for example in 1 − y²). NaN stays NaN.

struct Neg {
  template <class T>
  VITRINE_HD T value(T x) const {
    return -x;
  }
  template <class T>
  VITRINE_HD T derivative(T, T) const {
    return T(-1);
  }
};
struct Abs {
  template <class T>
  VITRINE_HD T value(T x) const {
    return abs(x);
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    return sign(x);
  }
};
struct Sign {
  template <class T>
  VITRINE_HD T value(T x) const {
    return sign(x);
  }
  template <class T>
  VITRINE_HD T derivative(T, T) const {
    return T(0);
  }
};
struct Square {
  template <class T>
  VITRINE_HD T value(T x) const {
    return x * x;
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    return x + x;
  }
};
struct Reciprocal {
  template <class T>
  VITRINE_HD T value(T x) const {
    return T(1) / x;
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    return T(-1) / (x * x);
  }
};
struct Sqrt {
  template <class T>
  VITRINE_HD T value(T x) const {
    return sqrt(x);
  }
  template <class T>
  VITRINE_HD T derivative(T, T y) const {
    return T(0.5) / y;
  }
};
struct Rsqrt {
  template <class T>
  VITRINE_HD T value(T x) const {
    return rsqrt(x);
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    return T(-0.5) * rsqrt(x) / x;
  }
};
struct Exp {
  template <class T>
  VITRINE_HD T value(T x) const {
    return exp(x);
  }
  template <class T>
  VITRINE_HD T derivative(T, T y) const {
    return y;
  }
};
struct Expm1 {
  template <class T>
  VITRINE_HD T value(T x) const {
    return expm1(x);
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    return exp(x);
  }
};
struct Log {
  template <class T>
  VITRINE_HD T value(T x) const {
    return log(x);
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    return T(1) / x;
  }
};
struct Log1p {
  template <class T>
  VITRINE_HD T value(T x) const {
    return log1p(x);
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    return T(1) / (T(1) + x);
  }
};
struct Sin {
  template <class T>
  VITRINE_HD T value(T x) const {
    return sin(x);
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    return cos(x);
  }
};
struct Cos {
  template <class T>
  VITRINE_HD T value(T x) const {
    return cos(x);
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    return -sin(x);
  }
};
struct Tanh {
  template <class T>
  VITRINE_HD T value(T x) const {
    return tanh(x);
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    const T t = tanh(x);
    return T(1) - t * t;
  }
};
struct Erf {
  template <class T>
  VITRINE_HD T value(T x) const {
    return erf(x);
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    return T(1.1283791670955126) * exp(-(x * x));
  }  // 2/√π
};
/// −|x|, but with slope 1 at 0. Functions composed from two halves use the left half at 0; this
/// gives dual numbers the same slope.
template <class T>
VITRINE_HD T minus_abs(T x) {
  return select(x > T(0), -x, x);
}
/// 1/(1 + e⁻ˣ), computed from e^−|x| so that nothing overflows.
struct Sigmoid {
  template <class T>
  VITRINE_HD T value(T x) const {
    const T e = exp(minus_abs(x)), r = T(1) / (T(1) + e);
    return select(x > T(0), r, e * r);
  }
  /// s·(1 − s), computed without the difference, which would lose small values.
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    const T e = exp(minus_abs(x)), r = T(1) / (T(1) + e);
    return e * r * r;
  }
};
struct Relu {
  template <class T>
  VITRINE_HD T value(T x) const {
    return select(x < T(0), T(0), x);
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    return select(x > T(0), T(1), T(0));
  }
};
/// x for x > 0, else a·x.
struct LeakyRelu {
  double a, b;
  template <class T>
  VITRINE_HD T value(T x) const {
    return select(x > T(0), x, T(a) * x);
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    return select(x > T(0), T(1), T(a));
  }
};
/// x limited to [a, b].
struct Clamp {
  double a, b;
  template <class T>
  VITRINE_HD T value(T x) const {
    return select(x < T(a), T(a), select(x > T(b), T(b), x));
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    return select(x < T(a), T(0), select(x > T(b), T(0), T(1)));
  }
};
/// x·Φ(x), Φ(x) = (1 + erf(x/√2))/2.
struct Gelu {
  template <class T>
  VITRINE_HD T value(T x) const {
    return T(0.5) * x * (T(1) + erf(x * T(0.7071067811865476)));
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    const T cdf = T(0.5) * (T(1) + erf(x * T(0.7071067811865476)));
    return cdf + x * T(0.3989422804014327) * exp(T(-0.5) * (x * x));  // 1/√(2π)
  }
};
/// x/2·(1 + tanh u) with u = √(2/π)·(x + 0.044715·x³), written as x·sigmoid(2u).
struct GeluTanh {
  static constexpr double kLinear = 1.5957691216057308, kCubic = 0.044715 * kLinear;  // 2√(2/π)
  template <class T>
  VITRINE_HD T twice_u(T x) const {
    return x * mul_add(T(kCubic), x * x, T(kLinear));
  }
  template <class T>
  VITRINE_HD T value(T x) const {
    return x * Sigmoid().value(twice_u(x));
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    const T u2 = twice_u(x), s = Sigmoid().value(u2), ds = Sigmoid().derivative(u2, s);
    const T du2 = mul_add(T(3 * kCubic), x * x, T(kLinear));
    // Beyond 30, s is 0 or 1 in every type, but x² may be infinite.
    return select(x * x > T(900), s, mul_add(x * ds, du2, s));
  }
};
struct Silu {
  template <class T>
  VITRINE_HD T value(T x) const {
    return x * Sigmoid().value(x);
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    const T s = Sigmoid().value(x);
    // Beyond these bounds, e^−|x| is 0 in every type, but x may be infinite.
    const T z = Clamp{-750, 750}.value(x);
    return s + z * Sigmoid().derivative(x, s);
  }
};
/// x for x > 0, else a·(eˣ − 1).
struct Elu {
  double a, b;
  template <class T>
  VITRINE_HD T value(T x) const {
    return select(x > T(0), x, T(a) * expm1(x));
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    return select(x > T(0), T(1), T(a) * exp(x));
  }
};
/// eˣ for x < 0, else 1 + x.
struct EluPlusOne {
  template <class T>
  VITRINE_HD T value(T x) const {
    return select(x < T(0), exp(x), T(1) + x);
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    return select(x < T(0), exp(x), T(1));
  }
};
/// max(x, 0) + log1p(e^−|x|).
struct Softplus {
  template <class T>
  VITRINE_HD T value(T x) const {
    return Relu().value(x) + log1p(exp(minus_abs(x)));
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    return Sigmoid().value(x);
  }
};
struct Softsign {
  template <class T>
  VITRINE_HD T value(T x) const {
    return x / (T(1) + abs(x));
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    const T d = T(1) + abs(x);
    return T(1) / (d * d);
  }
};
/// x·clamp(x/6 + 1/2, 0, 1).
struct Hardswish {
  template <class T>
  VITRINE_HD T value(T x) const {
    return x * Clamp{0, 1}.value(x * T(1.0 / 6) + T(0.5));
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    return select(x < T(-3), T(0), select(x > T(3), T(1), x * T(1.0 / 3) + T(0.5)));
  }
};
/// x·tanh(softplus(x)).
struct Mish {
  template <class T>
  VITRINE_HD T value(T x) const {
    return x * tanh(Softplus().value(x));
  }
  template <class T>
  VITRINE_HD T derivative(T x, T) const {
    const T t = tanh(Softplus().value(x));
    return t + x * (T(1) - t * t) * Sigmoid().value(x);
  }
};
/// a·x + b.
struct Affine {
  double a, b;
  template <class T>
  VITRINE_HD T value(T x) const {
    return T(a) * x + T(b);
  }
  template <class T>
  VITRINE_HD T derivative(T, T) const {
    return T(a);
  }
};

// Two operands. Their gradients are written in recorded ops (ops/elementwise.cpp), so a value is
// enough here.
struct Add {
  template <class T>
  VITRINE_HD T value(T x, T y) const {
    return x + y;
  }
};
struct Sub {
  template <class T>
  VITRINE_HD T value(T x, T y) const {
    return x - y;
  }
};
struct Mul {
  template <class T>
  VITRINE_HD T value(T x, T y) const {
    return x * y;
  }
};
struct Div {
  template <class T>
  VITRINE_HD T value(T x, T y) const {
    return x / y;
  }
};
struct Maximum {
  template <class T>
  VITRINE_HD T value(T x, T y) const {
    return max(x, y);
  }
};
struct Minimum {
  template <class T>
  VITRINE_HD T value(T x, T y) const {
    return min(x, y);
  }
};
struct Pow {
  template <class T>
  VITRINE_HD T value(T x, T y) const {
    return pow(x, y);
  }
};
