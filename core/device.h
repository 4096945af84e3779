// Where a tensor's memory lies.
#pragma once

#include <cstdint>
#include <string>

namespace vitrine {

enum class DeviceKind : uint8_t { cpu, cuda };

/// The CPU, or one of the GPUs. In a build that emulates CUDA `cuda` is the emulator.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int8_t index = 0;  ///< which GPU; 0 for the CPU

  static const Device cpu;
  static const Device cuda;  ///< the first GPU

  bool is_cpu() const { return kind == DeviceKind::cpu; }
  bool operator==(const Device&) const = default;
};

inline constexpr Device Device::cpu{DeviceKind::cpu, 0};
inline constexpr Device Device::cuda{DeviceKind::cuda, 0};

/// "cpu" or "cuda:1".
std::string to_string(Device device);
/// The device of such a name; "cuda" is the first GPU. Another name is an error. Whether there is
/// that GPU is asked when a tensor is wanted there.
Device device_of(const std::string& name);

/// How many GPUs CUDA can use here, too old ones among them: 0 in a build without CUDA kernels,
/// those of the emulator in one with emulated kernels.
int gpu_count();

}  // namespace vitrine
