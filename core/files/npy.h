// Reading and writing NumPy's .npy: the bytes 93 "NUMPY", a version, the length of the header, the
// header (a Python dictionary {'descr', 'fortran_order', 'shape'} as text), then the elements.
#pragma once

#include <string>

#include "core/tensor.h"

namespace vitrine {

/// Reads versions 1.0, 2.0 and 3.0 in either byte order; Fortran order becomes strides. Supported
/// descr: f2, f4, f8, i4, i8, b1, and V2, which is read as bfloat16 (NumPy has no such type, and
/// the package ml_dtypes saves it as V2). A broken file, or a file that is truncated while it is
/// read, is an error that says what is wrong. No more memory is allocated than the file has bytes.
Tensor read_npy(const std::string& path);

/// Writes version 1.0, little-endian, row-major; elements start at a multiple of 64 bytes. Even
/// after a crash, `path` is either the old file or the new one. A saved bfloat16 is loaded in NumPy
/// by `load(path).view(ml_dtypes.bfloat16)`. A dual64 is an error.
void write_npy(const std::string& path, const Tensor& x);

}  // namespace vitrine
