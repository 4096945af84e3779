// The limits of a launch, as in CUDA.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/emulator/errors.h"
#include "cuda/emulator/index.h"

namespace vitrine::emulator {

/// Throws an error if a GPU would refuse the launch.
void check_launch(const Launch& launch);

/// cudaFuncSetAttribute: allows a kernel more dynamic shared memory than the 48 KiB that every
/// kernel may use.
cudaError_t allow_dynamic_shared(const void* kernel, size_t bytes);
/// The number of calls of pass_turn() without progress after which a block counts as endless; at
/// first 300 million, which take some seconds.
void set_most_passes(uint64_t passes);
uint64_t most_passes();
/// The shared memory of a block on the emulated GPUs, to test GPUs with less; at first 227 KiB, as
/// on Hopper.
void set_shared_memory_size(size_t bytes);
size_t shared_memory_size();
/// The largest number of blocks of a grid along z, to test launches in several parts; at first
/// 65535.
void set_most_blocks_in_depth(unsigned blocks);
unsigned most_blocks_in_depth();
/// The compute capability of the emulated GPUs, times ten, to test the kernels of older GPUs; at
/// first 90, as on Hopper.
void set_compute_capability(int capability);
int compute_capability();

}  // namespace vitrine::emulator
