#include "cuda/emulator/symbols.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

namespace vitrine::emulator {
namespace {

const char* path_of(const dl_phdr_info& module) {
  return module.dlpi_name == nullptr || *module.dlpi_name == '\0' ? "/proc/self/exe" : module.dlpi_name;
}

/// The last part of a C++ name: "buffer" of "void kernel<float>(float*)::buffer".
std::string short_name(const char* mangled) {
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(mangled, nullptr, nullptr, nullptr),
                                                    std::free);
  const std::string name = text ? text.get() : mangled;
  const size_t colon = name.rfind("::");
  return colon == std::string::npos ? name : name.substr(colon + 2);
}

template <class T>
T read_at(std::ifstream& file, uint64_t offset) {
  T value{};
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(&value), sizeof(T));
  return value;
}

/// Of functions (and extern "C" ones), as `__shared__` variables are; others are the emulator's and
/// the program's own.
bool is_local_to_function(std::string_view mangled) {
  return mangled.starts_with("_ZZ") || mangled.find('.') != std::string_view::npos;
}

/// The thread_local variables of functions in a program's table of symbols, where it has one.
StaticShared read_variables(const std::string& path) {
  StaticShared found;
  std::ifstream file(path, std::ios::binary);
  const auto header = read_at<ElfW(Ehdr)>(file, 0);
  for (unsigned i = 0; file && i < header.e_shnum; ++i) {
    const auto section = read_at<ElfW(Shdr)>(file, header.e_shoff + uint64_t{i} * header.e_shentsize);
    if (section.sh_type != SHT_SYMTAB) continue;
    found.has_symbols = true;
    const auto strings =
        read_at<ElfW(Shdr)>(file, header.e_shoff + uint64_t{section.sh_link} * header.e_shentsize);
    std::vector<ElfW(Sym)> symbols(section.sh_size / sizeof(ElfW(Sym)));
    std::vector<char> names(strings.sh_size + 1);
    file.seekg(static_cast<std::streamoff>(section.sh_offset));
    file.read(reinterpret_cast<char*>(symbols.data()), static_cast<std::streamsize>(section.sh_size));
    file.seekg(static_cast<std::streamoff>(strings.sh_offset));
    file.read(names.data(), static_cast<std::streamsize>(strings.sh_size));
    for (const ElfW(Sym) & s : symbols)
      if (ELF64_ST_TYPE(s.st_info) == STT_TLS && s.st_shndx != SHN_UNDEF && s.st_name < strings.sh_size &&
          is_local_to_function(&names[s.st_name]))
        found.variables.push_back({short_name(&names[s.st_name]), s.st_value, s.st_size});
  }
  std::sort(found.variables.begin(), found.variables.end(),
            [](auto& a, auto& b) { return a.offset < b.offset; });
  return found;
}

/// Of a program or library, where its memory of the calling thread lies at `data`.
StaticShared shared_of(const std::string& path, void* data, size_t size) {
  static std::mutex mutex;
  static std::map<std::string, StaticShared> known;
  const std::lock_guard lock(mutex);
  auto found = known.find(path);
  if (found == known.end()) found = known.emplace(path, read_variables(path)).first;
  StaticShared result = found->second;
  result.data = static_cast<char*>(data), result.size = size;
  return result;
}

/// The line of an address from addr2line, or "".
std::string ask_for_line(const void* return_address) {
  const auto address = reinterpret_cast<uintptr_t>(return_address) - 1;  // inside the call
  Dl_info module;
  link_map* map = nullptr;
  if (dladdr1(reinterpret_cast<void*>(address), &module, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) ==
      0)
    return "";
  const std::string path = map->l_name == nullptr || *map->l_name == '\0' ? "/proc/self/exe" : map->l_name;
  char resolved[4096];
  if (realpath(path.c_str(), resolved) == nullptr) return "";
  const std::string command =
      fmt::format("addr2line -s -e '{}' {:#x} 2>/dev/null", resolved, address - map->l_addr);
  const std::unique_ptr<FILE, int (*)(FILE*)> output(popen(command.c_str(), "r"), pclose);
  char line[512] = "";
  if (!output || std::fgets(line, sizeof(line), output.get()) == nullptr || line[0] == '?') return "";
  return std::string(line, std::strcspn(line, " \n"));
}

}  // namespace

bool is_program_data(const void* address, size_t size) {
  struct Range {
    uintptr_t begin, end;
  };
  static const std::vector<Range> ranges = [] {
    std::vector<Range> found;
    dl_iterate_phdr(
        [](dl_phdr_info* module, size_t, void* data) {
          for (unsigned i = 0; i < module->dlpi_phnum; ++i)
            if (const auto& part = module->dlpi_phdr[i]; part.p_type == PT_LOAD)
              static_cast<std::vector<Range>*>(data)->push_back(
                  {module->dlpi_addr + part.p_vaddr, module->dlpi_addr + part.p_vaddr + part.p_memsz});
          return 0;
        },
        &found);
    return found;
  }();
  const auto begin = reinterpret_cast<uintptr_t>(address);
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const Range& r) { return begin >= r.begin && begin + size <= r.end; });
}

const SharedVariable* StaticShared::find(size_t offset) const {
  const auto after = std::upper_bound(variables.begin(), variables.end(), offset,
                                      [](size_t at, const SharedVariable& v) { return at < v.offset; });
  return after == variables.begin() ? nullptr : &after[-1];
}

std::vector<StaticShared> static_shared() {
  std::vector<StaticShared> found;
  dl_iterate_phdr(
      [](dl_phdr_info* module, size_t, void* data) {
        for (unsigned i = 0; i < module->dlpi_phnum; ++i)
          if (const auto& part = module->dlpi_phdr[i]; part.p_type == PT_TLS && module->dlpi_tls_data)
            static_cast<std::vector<StaticShared>*>(data)->push_back(
                shared_of(path_of(*module), module->dlpi_tls_data, part.p_memsz));
        return 0;
      },
      &found);
  return found;
}

std::string source_line(const void* return_address) {
  // addr2line reads the debug information of the whole program, so that it is asked once.
  static std::mutex mutex;
  static std::map<const void*, std::string> known;
  const std::lock_guard lock(mutex);
  auto found = known.find(return_address);
  if (found == known.end()) found = known.emplace(return_address, ask_for_line(return_address)).first;
  return found->second;
}

}  // namespace vitrine::emulator
