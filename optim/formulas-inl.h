// Every update rule as one struct of formulas: the numbers of a step, and the update of one
// element. The same text serves float and double, on the CPU and in CUDA kernels, and the vectors
// of every instruction set. It therefore has no include guard: include it inside the namespace
// whose sqrt, max and sign it should use (optim/formulas.h for scalars).
//
// update(x, g, state…) updates x and its states by the gradient g. kStates lists the states in the
// order of the arguments. A state that a parameter does not have is passed as 0 and not stored.
// T(beta1) converts a number to the element type, so that a float update is rounded as float.

/// The rules that consist only of update(). Each has a kernel on both devices (optim/kernels.h).
#define VITRINE_UPDATE_FORMULAS(X) \
  X(Sgd)                           \
  X(Adam)                          \
  X(Adamax)                        \
  X(Lion)                          \
  X(Rmsprop) X(Adagrad) X(Adadelta) X(MuonMomentum) X(Muon) X(ScheduleFree) X(ScheduleFreePoint) X(Sophia)

/// Sutskever et al. 2013. On a buffer's first step the buffer becomes g.
struct Sgd {
  static constexpr const char* kName = "sgd_step";
  static constexpr const char* kStates[] = {"momentum"};
  double lr = 0, momentum = 0, dampening = 0, decay = 0;
  bool nesterov = false, first = false;

  template <class T>
  VITRINE_HD void update(T& x, T grad, T& buffer) const {
    T g = grad + T(decay) * x;
    if (momentum != 0) {
      buffer = first ? g : T(momentum) * buffer + T(1 - dampening) * g;
      g = nesterov ? g + T(momentum) * buffer : buffer;
    }
    x -= T(lr) * g;
  }
};

/// Kingma and Ba 2015, and related rules, which differ only in the factors.
struct Adam {
  static constexpr const char* kName = "adam_step";
  static constexpr const char* kStates[] = {"moment1", "moment2", "largest"};
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0;
  double coupled_decay = 0;                         ///< times x, is added to the gradient
  double decoupled_decay = 0;                       ///< x is multiplied by 1 − lr·decay first
  double m_factor = 1, g_factor = 0, v_factor = 1;  ///< factors of m and g in the step, and of v
  bool amsgrad = false;                             ///< the largest v so far instead of v
  bool adaptive = true;                             ///< off: no denominator

  template <class T>
  VITRINE_HD void update(T& x, T grad, T& m, T& v, T& largest) const {
    const T g = limited(grad + T(coupled_decay) * x);
    m = T(beta1) * m + T(1 - beta1) * g;
    v = T(beta2) * v + T(1 - beta2) * g * g;
    if (amsgrad) largest = max(largest, v);
    T step = T(m_factor) * m + T(g_factor) * g;
    if (adaptive) step = step / (sqrt((amsgrad ? largest : v) * T(v_factor)) + in_denominator<T>(eps));
    x = T(1 - lr * decoupled_decay) * x - T(lr) * step;
  }
};

/// Kingma and Ba 2015, section 7.1.
struct Adamax {
  static constexpr const char* kName = "adamax_step";
  static constexpr const char* kStates[] = {"moment1", "infinity_norm"};
  double rate = 0;  ///< lr/(1 − β₁ᵗ)
  double beta1 = 0, beta2 = 0, eps = 0;
  double decay = 0;  ///< times x, is added to the gradient
  double keep = 1;   ///< 1 − lr·decay if the decay is decoupled

  template <class T>
  VITRINE_HD void update(T& x, T grad, T& m, T& u) const {
    const T g = grad + T(decay) * x;
    m = T(beta1) * m + T(1 - beta1) * g;
    u = max(T(beta2) * u, abs(g));
    x = T(keep) * x - T(rate) * (m / (u + at_least_normal<T>(eps)));
  }
};

/// Chen et al. 2023.
struct Lion {
  static constexpr const char* kName = "lion_step";
  static constexpr const char* kStates[] = {"moment1"};
  double lr = 0, beta1 = 0, beta2 = 0, decay = 0;

  template <class T>
  VITRINE_HD void update(T& x, T g, T& m) const {
    const T direction = sign(T(beta1) * m + T(1 - beta1) * g);
    x -= T(lr) * (direction + T(decay) * x);
    m = T(beta2) * m + T(1 - beta2) * g;
  }
};

/// Tieleman and Hinton 2012.
struct Rmsprop {
  static constexpr const char* kName = "rmsprop_step";
  static constexpr const char* kStates[] = {"moment2", "moment1", "momentum"};
  double lr = 0, beta2 = 0, eps = 0, momentum = 0, decay = 0;
  bool centered = false;

  template <class T>
  VITRINE_HD void update(T& x, T grad, T& v, T& m, T& buffer) const {
    const T g = limited(grad + T(decay) * x);
    v = T(beta2) * v + T(1 - beta2) * g * g;
    T square = v;
    if (centered) {
      m = T(beta2) * m + T(1 - beta2) * g;
      square = max(v - m * m, T(0));  // rounding can make the variance negative
    }
    T u = g / (sqrt(square) + in_denominator<T>(eps));
    if (momentum != 0) u = buffer = T(momentum) * buffer + u;
    x -= T(lr) * u;
  }
};

/// Duchi, Hazan and Singer 2011.
struct Adagrad {
  static constexpr const char* kName = "adagrad_step";
  static constexpr const char* kStates[] = {"moment2"};
  double lr = 0, eps = 0, decay = 0;

  template <class T>
  VITRINE_HD void update(T& x, T grad, T& v) const {
    const T g = limited(grad + T(decay) * x);
    v += g * g;
    x -= T(lr) * g / (sqrt(v) + in_denominator<T>(eps));
  }
};

/// Zeiler 2012.
struct Adadelta {
  static constexpr const char* kName = "adadelta_step";
  static constexpr const char* kStates[] = {"moment2", "steps"};
  double lr = 0, rho = 0, eps = 0, decay = 0;

  template <class T>
  VITRINE_HD void update(T& x, T grad, T& v, T& steps) const {
    const T g = limited(grad + T(decay) * x), e = at_least_normal<T>(eps);
    v = T(rho) * v + T(1 - rho) * g * g;
    const T u = sqrt(steps + e) / sqrt(v + e) * g;
    steps = T(rho) * steps + T(1 - rho) * u * u;
    x -= T(lr) * u;
  }
};

/// Jordan 2024. x is the momentum u, which newton_schulz then makes orthogonal.
struct MuonMomentum {
  static constexpr const char* kName = "muon_momentum";
  static constexpr const char* kStates[] = {"momentum"};
  double momentum = 0;
  bool nesterov = false;

  template <class T>
  VITRINE_HD void update(T& u, T g, T& m) const {
    m = T(momentum) * m + T(1 - momentum) * g;
    u = nesterov ? T(momentum) * m + T(1 - momentum) * g : m;
  }
};

/// Jordan 2024. The update by the direction, which is passed in place of the gradient.
struct Muon {
  static constexpr const char* kName = "muon_step";
  static constexpr std::array<const char*, 0> kStates = {};
  double lr = 0, decay = 0;

  template <class T>
  VITRINE_HD void update(T& x, T direction) const {
    x = T(1 - lr * decay) * x - T(lr) * direction;
  }
};

/// Defazio et al. 2024, with the denominator of Adam. x is the point of the gradients.
struct ScheduleFree {
  static constexpr const char* kName = "schedule_free_step";
  static constexpr const char* kStates[] = {"moment2", "base", "average"};
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, decay = 0;
  double v_factor = 1;  ///< the factor of v
  double weight = 1;    ///< of the base in the average

  template <class T>
  VITRINE_HD void update(T& x, T grad, T& v, T& base, T& average) const {
    const T g = limited(grad);
    v = T(beta2) * v + T(1 - beta2) * g * g;
    base -= T(lr) * (g / (sqrt(v * T(v_factor)) + in_denominator<T>(eps)) + T(decay) * x);
    average += T(weight) * (base - average);
    x = base + T(beta1) * (average - base);  // exact where both are equal
  }
};

/// x is the point of the gradients or, for an evaluation, the average.
struct ScheduleFreePoint {
  static constexpr const char* kName = "schedule_free_point";
  static constexpr const char* kStates[] = {"base", "average"};
  double beta1 = 0;
  bool evaluation = false;

  template <class T>
  VITRINE_HD void update(T& x, T, T& base, T& average) const {
    x = evaluation ? average : base + T(beta1) * (average - base);
  }
};

/// Liu et al. 2023. m·0 keeps a NaN, which min and max may drop.
struct Sophia {
  static constexpr const char* kName = "sophia_step";
  static constexpr const char* kStates[] = {"moment1", "hessian"};
  double lr = 0, beta1 = 0, gamma = 0, decay = 0;

  template <class T>
  VITRINE_HD void update(T& x, T g, T& m, T& h) const {
    m = T(beta1) * m + T(1 - beta1) * g;
    const T u = max(min(m / max(T(gamma) * h, T(1e-12)), T(1)), T(-1)) + m * T(0);
    x = T(1 - lr * decay) * x - T(lr) * u;
  }
};

// Rules with sums between their formulas. They have their own kernels.

/// You et al. 2020: x −= rate·u, one rate for each parameter.
struct Lamb {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, decay = 0;
  double m_factor = 1, v_factor = 1;  ///< factors that turn m and v into m̂ and v̂
  double phi_min = 0, phi_max = 0;

  template <class T>
  VITRINE_HD void moments(T grad, T& m, T& v) const {
    const T g = limited(grad);
    m = T(beta1) * m + T(1 - beta1) * g;
    v = T(beta2) * v + T(1 - beta2) * g * g;
  }
  /// u.
  template <class T>
  VITRINE_HD T direction(T x, T m, T v) const {
    return T(m_factor) * m / (sqrt(v * T(v_factor)) + in_denominator<T>(eps)) + T(decay) * x;
  }
  /// lr·φ(‖x‖)/‖u‖ from Σx² and Σu².
  VITRINE_HD double rate(double of_x, double of_u) const {
    if (!(of_x > 0 && of_u > 0)) return lr;
    return lr * min(max(sqrt(of_x), phi_min), phi_max) / sqrt(of_u);
  }
};

/// Shazeer and Stern 2018. v of a matrix is R·C/mean(R), with the means R of its rows and C of its
/// columns.
struct Adafactor {
  double lr = 0, beta1 = 0, beta2 = 0, decay = 0, clip = 1;
  bool scale_parameter = true;

  /// The new value of an element of R or C, from the mean of its g².
  VITRINE_HD double mean_square(double old, double mean) const {
    return beta2 * old + (1 - beta2) * (mean + 1e-30);
  }
  /// v, for tensors that keep all of it.
  template <class T>
  VITRINE_HD T square(T v, T grad) const {
    const T g = limited(grad);
    return T(beta2) * v + T(1 - beta2) * (g * g + T(1e-30));
  }
  /// u = scale·g/√v.
  template <class T>
  VITRINE_HD T direction(T grad, T v, T scale) const {
    return scale * limited(grad) / sqrt(v);
  }
  /// The factors of x and u in the update, from the means of x² and u².
  struct Factors {
    double of_x, of_u;
  };
  VITRINE_HD Factors factors(double mean_x, double mean_u) const {
    const double step = scale_parameter ? lr * max(sqrt(mean_x), 1e-3) : lr;
    return {1 - step * decay, step / max(sqrt(mean_u) / clip, 1.0)};
  }
  /// u already contains its factor. If β₁ > 0, its running average m replaces it.
  template <class T>
  VITRINE_HD void update(T& x, T u, T& m, double factor_of_x) const {
    if (beta1 > 0) u = m = T(beta1) * m + T(1 - beta1) * u;
    x = T(factor_of_x) * x - u;
  }
};
