#include "core/device.h"

#include <charconv>

#include "core/error.h"

namespace vitrine {

std::string to_string(Device device) {
  return device.is_cpu() ? "cpu" : fmt::format("cuda:{}", static_cast<int>(device.index));
}

Device device_of(const std::string& name) {
  if (name == "cpu") return Device::cpu;
  if (name == "cuda") return Device::cuda;
  constexpr size_t kPrefix = 5;
  Device device = Device::cuda;
  const char* const end = name.data() + name.size();
  const bool is_gpu = name.starts_with("cuda:") && name.size() > kPrefix && name[kPrefix] != '-';
  if (is_gpu) {
    const auto [stop, error] = std::from_chars(name.data() + kPrefix, end, device.index);
    if (stop == end && error == std::errc()) return device;
  }
  fail("the device is \"{}\", wanted cpu, cuda, or the number of a GPU, as in cuda:1", name);
}

}  // namespace vitrine
