// Initial values of parameters, drawn from a random generator: one seed always gives the same bits.
#pragma once

#include "core/parameter.h"
#include "core/random.h"

namespace vitrine::nn {

/// N(0, deviation²).
Parameter normal(const Shape& shape, double deviation, Generator& generator = default_generator());
/// U(−bound, bound).
Parameter uniform(const Shape& shape, double bound, Generator& generator = default_generator());
/// N(0, deviation²), truncated: a value more than two deviations from 0 is drawn again. The
/// standard deviation of the result is 0.88·deviation.
Parameter truncated_normal(const Shape& shape, double deviation, Generator& generator = default_generator());
/// Every element is `value`.
Parameter constant(const Shape& shape, double value);

// Weights are [out, in]. The gain compensates for the variance that the next activation removes: 1
// for no activation or for the linear range of tanh, √2 for ReLU.

/// A random matrix with orthogonal rows of length `gain` (columns, if there are fewer columns than
/// rows), uniformly distributed among such matrices. Saxe, McClelland, Ganguli 2014.
Parameter orthogonal(const Shape& shape, double gain = 1, Generator& generator = default_generator());
/// U(−b, b), b = gain·√(6/(in + out)). Glorot and Bengio 2010, equation 16.
Parameter xavier_uniform(const Shape& shape, double gain = 1, Generator& generator = default_generator());
/// N(0, 2·gain²/(in + out)). Glorot and Bengio 2010, equation 12.
Parameter xavier_normal(const Shape& shape, double gain = 1, Generator& generator = default_generator());
/// U(−b, b), b = gain·√(3/in). The default gain is for ReLU. He et al. 2015.
Parameter kaiming_uniform(const Shape& shape, double gain = 1.4142135623730951,
                          Generator& generator = default_generator());
/// N(0, gain²/in). The default gain is for ReLU. He et al. 2015, equation 10.
Parameter kaiming_normal(const Shape& shape, double gain = 1.4142135623730951,
                         Generator& generator = default_generator());

/// deviation/√(2·layers): the standard deviation for the two projections of each block that add to
/// the residual stream. With it, the variance of the stream does not grow with depth. Radford et
/// al. 2019, section 2.3.
double residual_deviation(double deviation, int64_t layers);

}  // namespace vitrine::nn
