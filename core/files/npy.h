// Reading and writing NumPy's .npy: the bytes 93 "NUMPY", a version, the length of the header, the
// header (a Python dictionary {'descr', 'fortran_order', 'shape'} as text), then the elements.
#pragma once

#include <string>

#include "core/tensor.h"

namespace vitrine {

/// Versions 1.0, 2.0 and 3.0; either byte order; Fortran order becomes strides. Descr f2, f4, f8,
/// i4, i8, b1, and V2, which is bfloat16: NumPy has no such type, and V2 is what the package
/// ml_dtypes saves it as. A broken file is an error that says what is wrong with it, and so is one
/// that is cut while it is read; never more is allocated than the file holds.
Tensor read_npy(const std::string& path);

/// Version 1.0, little-endian, row-major, elements at a multiple of 64 bytes. Whatever happens,
/// `path` is the old file or the new one. NumPy gives a saved bfloat16 back by
/// `load(path).view(ml_dtypes.bfloat16)`. A dual64 is an error.
void write_npy(const std::string& path, const Tensor& x);

}  // namespace vitrine
