// Initial values of parameters, drawn from a generator.
#pragma once

#include "core/parameter.h"
#include "core/random.h"

namespace vitrine::nn {

/// N(0, deviation²).
Parameter normal(const Shape& shape, double deviation, Generator& generator = default_generator());
/// U(−bound, bound).
Parameter uniform(const Shape& shape, double bound, Generator& generator = default_generator());
/// U(−b, b), b = √(6/(in + out)), for a weight [out, in]. Glorot and Bengio 2010.
Parameter xavier_uniform(const Shape& shape, Generator& generator = default_generator());
/// N(0, 2/in) for a weight [out, in] in front of a ReLU. He et al. 2015.
Parameter kaiming_normal(const Shape& shape, Generator& generator = default_generator());
Parameter constant(const Shape& shape, double value);

}  // namespace vitrine::nn
