// The program `vitrine`: one subcommand for each thing that one does with a model.
//
//   vitrine train --data shakespeare.txt --mixer laser+qk_norm --steps 2000
//   vitrine sample runs/laser+qk_norm --prompt "To be"
//
// Exit codes: 0 success, 1 the command failed and says why on standard error, 2 wrong usage, and
// after a signal 128 and its number, as in a shell: 130 after Ctrl-C.
#include <cstring>

#include "core/names.h"
#include "core/version.h"
#include "examples/vitrine/command.h"

using namespace vitrine;
using namespace vitrine::examples;

namespace {

void print_help(std::FILE* stream) {
  say(stream,
      "Usage: vitrine COMMAND [OPTIONS]\n\nTrains Transformers and shows what is in them.\n\nCommands:\n");
  for (const Command& command : commands()) say(stream, "  {:<12}{}\n", command.name, command.purpose);
  say(stream,
      "\nvitrine COMMAND --help lists the options of a command, with examples.\n\nExamples:\n"
      "  vitrine train --compare standard,laser --steps 500\n"
      "  vitrine sample runs/laser --prompt 'The '\n"
      "  vitrine compare runs/standard runs/laser\n");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  if (name == "--help" || name == "-h" || name == "--version")
    return run_program("vitrine", [&] {
      if (name == "--version")
        say(stdout, "vitrine of Vitrine {}\n", version());
      else
        print_help(stdout);
      return 0;
    });
  std::vector<std::string> known;
  for (const Command& command : commands()) {
    if (command.name == name) return command.run("vitrine " + name, argc - 1, argv + 1);
    known.push_back(command.name);
  }
  if (name.empty())
    print_help(stderr);
  else
    say(stderr, "vitrine: there is no command {}{}\n", name, did_you_mean(name, known));
  return 2;
}
