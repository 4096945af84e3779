// What a launch may ask for, as CUDA has it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/emulator/errors.h"
#include "cuda/emulator/index.h"

namespace vitrine::emulator {

/// An error where a GPU would refuse the launch.
void check_launch(const Launch& launch);

/// cudaFuncSetAttribute: lets a kernel take more dynamic shared memory than the 48 KiB that every
/// kernel may.
cudaError_t allow_dynamic_shared(const void* kernel, size_t bytes);
/// After how many turns that its threads have passed on, and done nothing else, a block is taken
/// for one that never ends: at first 300 million, some seconds.
void set_most_passes(uint64_t passes);
uint64_t most_passes();
/// The shared memory of a block on the emulated GPUs, for trying those that have less; at first 227
/// KiB, as on Hopper.
void set_shared_memory_size(size_t bytes);
size_t shared_memory_size();
/// How many blocks a grid has at most along z, for trying what comes in parts; at first 65535.
void set_most_blocks_in_depth(unsigned blocks);
unsigned most_blocks_in_depth();
/// The compute capability of the emulated GPUs, times ten, for the kernels of older ones; at first
/// 90, Hopper's.
void set_compute_capability(int capability);
int compute_capability();

}  // namespace vitrine::emulator
