#include <filesystem>

#include "examples/vitrine/command.h"

namespace vitrine::examples {

std::vector<Command> commands() {
  return {train_command(),   sample_command(),    check_command(),     inspect_command(),
          compare_command(), tokenize_command(),  translate_command(), convert_command(),
          search_command(),  completion_command()};
}

std::string checkpoint_in(const std::string& path) {
  const std::string checkpoint = path + "/checkpoint.safetensors";
  return std::filesystem::exists(checkpoint) ? checkpoint : path;
}

}  // namespace vitrine::examples
