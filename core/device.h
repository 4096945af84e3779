// The device that holds a tensor's memory.
#pragma once

#include <cstdint>
#include <string>

namespace vitrine {

enum class DeviceKind : uint8_t { cpu, cuda };

/// The CPU, or one of the GPUs. In a build that emulates CUDA, `cuda` is the emulator.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int8_t index = 0;  ///< the GPU's number; 0 for the CPU

  static const Device cpu;
  static const Device cuda;  ///< the first GPU

  bool is_cpu() const { return kind == DeviceKind::cpu; }
  bool operator==(const Device&) const = default;
};

inline constexpr Device Device::cpu{DeviceKind::cpu, 0};
inline constexpr Device Device::cuda{DeviceKind::cuda, 0};

/// "cpu" or "cuda:1".
std::string to_string(Device device);
/// The device with this name; "cuda" is the first GPU. An unknown name is an error. Whether that
/// GPU exists is checked only when a tensor is created on it.
Device device_of(const std::string& name);

/// The number of GPUs that CUDA can use, including ones too old for Vitrine's kernels: 0 in a build
/// without CUDA kernels, and the number of emulated GPUs in a build with emulated kernels.
int gpu_count();

}  // namespace vitrine
