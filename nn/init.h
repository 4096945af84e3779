// Initial values of parameters, drawn from a generator: the same bits for the same seed.
#pragma once

#include "core/parameter.h"
#include "core/random.h"

namespace vitrine::nn {

/// N(0, deviation²).
Parameter normal(const Shape& shape, double deviation, Generator& generator = default_generator());
/// U(−bound, bound).
Parameter uniform(const Shape& shape, double bound, Generator& generator = default_generator());
/// N(0, deviation²) without what lies beyond two deviations, which is drawn again; its own
/// deviation is 0.88 of that.
Parameter truncated_normal(const Shape& shape, double deviation, Generator& generator = default_generator());
/// The same value everywhere.
Parameter constant(const Shape& shape, double value);

// Weights are [out, in]. A gain makes up for what the activation after it loses: 1 for none or
// tanh's middle, √2 for ReLU.

/// Rows (or columns, whichever are fewer) orthogonal to each other and of length `gain`; uniform
/// among such matrices. Saxe, McClelland, Ganguli 2014.
Parameter orthogonal(const Shape& shape, double gain = 1, Generator& generator = default_generator());
/// U(−b, b), b = gain·√(6/(in + out)). Glorot and Bengio 2010, equation 16.
Parameter xavier_uniform(const Shape& shape, double gain = 1, Generator& generator = default_generator());
/// N(0, 2·gain²/(in + out)). Glorot and Bengio 2010, equation 12.
Parameter xavier_normal(const Shape& shape, double gain = 1, Generator& generator = default_generator());
/// U(−b, b), b = gain·√(3/in); the gain is that of a ReLU. He et al. 2015.
Parameter kaiming_uniform(const Shape& shape, double gain = 1.4142135623730951,
                          Generator& generator = default_generator());
/// N(0, gain²/in). He et al. 2015, equation 10.
Parameter kaiming_normal(const Shape& shape, double gain = 1.4142135623730951,
                         Generator& generator = default_generator());

/// deviation/√(2·layers), for the two projections of each block that add to the residual stream:
/// its variance then does not grow with depth. Radford et al. 2019, section 2.3.
double residual_deviation(double deviation, int64_t layers);

}  // namespace vitrine::nn
