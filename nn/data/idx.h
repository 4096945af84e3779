// IDX files, the form of MNIST.
#pragma once

#include <string>

#include "core/tensor.h"
#include "nn/data/image.h"

namespace vitrine::nn {

/// The tensor of an IDX file, plain or gzip: two zero bytes, a byte for the type of the elements, a
/// byte for the number of axes, their sizes as big-endian 32-bit numbers, and the elements, row by
/// row. Unsigned bytes (type 0x08) give uint8, 0x0C int32, 0x0D float32 and 0x0E float64. A wrong
/// magic number, another type, a size of 2^63 bytes or more, and a file that is shorter or longer
/// than its header says are errors. Unsigned bytes of a plain file stay there: the file is mapped
/// into memory (see InputFile::mapped), and a page is read when an element is first used.
Tensor read_idx(const std::string& path);

/// Images and their labels from two IDX files: uint8 [N, H, W], whose values are divided by 255,
/// and uint8 [N] with labels below `classes`. Other shapes, and different numbers of images and
/// labels, are errors. The images of a plain file stay in the file, as in read_idx; those of a gzip
/// file are in memory.
Dataset<LabelledImage> read_idx_images(const std::string& images, const std::string& labels,
                                       int64_t classes = 10);

}  // namespace vitrine::nn
