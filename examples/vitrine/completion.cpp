// Shell completion, from the same lists of options as the help.
#include <fmt/format.h>

#include "examples/vitrine/command.h"

namespace vitrine::examples {
namespace {

struct NoOptions {
  void list(nn::OptionList&) {}
};

std::string flags_of(const Command& command) {
  std::string flags;
  for (const nn::Option& option : command.options()) flags += "--" + option.name + " ";
  return flags + "--config --help --version";
}

std::string names() {
  std::string all;
  for (const Command& command : commands()) all += (all.empty() ? "" : " ") + command.name;
  return all;
}

/// `case` branches that set words to the values of a flag, for flags with a list of them.
std::string values_by_flag(const Command& command) {
  std::string cases;
  for (const nn::Option& option : command.options())
    if (!option.names.empty())
      cases += fmt::format("    {}:--{}) values=\"{}\" ;;\n", command.name, option.name,
                           fmt::join(option.names, " "));
  return cases;
}

/// Sets `flags`, `first` and `values` from $command and $previous; bash and zsh read the same text.
std::string lookup() {
  std::string text = "  local flags=\"\" first=\"\" values=\"\"\n  case $command in\n";
  for (const Command& command : commands())
    text += fmt::format("    {}) flags=\"{}\" first=\"{}\" ;;\n", command.name, flags_of(command),
                        fmt::join(command.words.first, " "));
  text += "  esac\n  case $command:$previous in\n";
  for (const Command& command : commands()) text += values_by_flag(command);
  return text + "  esac\n";
}

std::string for_bash() {
  return "_vitrine() {\n"
         "  local command=${COMP_WORDS[1]} previous=${COMP_WORDS[COMP_CWORD-1]} word=${COMP_WORDS[COMP_CWORD]}\n" +
         lookup() + "  if [ \"$COMP_CWORD\" = 1 ]; then COMPREPLY=($(compgen -W \"" + names() +
         "\" -- \"$word\"))\n"
         "  elif [ -n \"$values\" ]; then COMPREPLY=($(compgen -W \"$values\" -- \"$word\"))\n"
         "  elif [[ $word == -* ]]; then COMPREPLY=($(compgen -W \"$flags\" -- \"$word\"))\n"
         "  elif [ \"$COMP_CWORD\" = 2 ] && [ -n \"$first\" ]; then COMPREPLY=($(compgen -W \"$first\" -- \"$word\"))\n"
         "  else COMPREPLY=($(compgen -f -- \"$word\")); fi\n"
         "}\ncomplete -o filenames -F _vitrine vitrine\n";
}

std::string for_zsh() {
  return "#compdef vitrine\n_vitrine() {\n"
         "  local command=$words[2] previous=$words[CURRENT-1] word=$words[CURRENT]\n" +
         lookup() + "  if (( CURRENT == 2 )); then compadd -- " + names() +
         "\n"
         "  elif [[ -n $values ]]; then compadd -- ${=values}\n"
         "  elif [[ $word == -* ]]; then compadd -- ${=flags}\n"
         "  elif (( CURRENT == 3 )) && [[ -n $first ]]; then compadd -- ${=first}\n"
         "  else _files; fi\n"
         "}\ncompdef _vitrine vitrine\n";
}

/// A text in single quotes of fish.
std::string fish_quoted(std::string text) {
  text = text.substr(0, text.find('\n'));
  for (size_t at = 0; (at = text.find_first_of("\\'", at)) != text.npos; at += 2) text.insert(at, "\\");
  return "'" + text + "'";
}

std::string for_fish() {
  std::string text;
  for (const Command& command : commands())
    text += fmt::format("complete -c vitrine -n __fish_use_subcommand -f -a {} -d {}\n", command.name,
                        fish_quoted(command.purpose));
  for (const Command& command : commands())
    if (!command.words.first.empty())
      text += fmt::format(
          "complete -c vitrine -n '__fish_seen_subcommand_from {}; and test (count (commandline -opc)) = 2' -f -a '{}'\n",
          command.name, fmt::join(command.words.first, " "));
  for (const Command& command : commands())
    for (const nn::Option& option : command.options()) {
      text += fmt::format("complete -c vitrine -n '__fish_seen_subcommand_from {}' -l {} -d {}", command.name,
                          option.name, fish_quoted(option.help));
      if (!option.names.empty()) text += fmt::format(" -x -a '{}'", fmt::join(option.names, " "));
      text += option.kind == nn::Option::Kind::flag || !option.names.empty() ? "\n" : " -r\n";
    }
  return text;
}

int run(NoOptions&, const Call& call) {
  const std::string& shell = call.words[0];
  if (shell == "bash") return say(stdout, "{}", for_bash()), 0;
  if (shell == "zsh") return say(stdout, "{}", for_zsh()), 0;
  if (shell == "fish") return say(stdout, "{}", for_fish()), 0;
  say(stderr, "{}: there is no shell {}, wanted bash, zsh or fish\n", call.program, shell);
  return 2;
}

}  // namespace

Command completion_command() {
  return make_command<NoOptions>(
      "completion", "Prints the completion of commands and options for a shell.",
      "  source <(vitrine completion bash)                      in ~/.bashrc\n"
      "  source <(vitrine completion zsh)                       in ~/.zshrc, after compinit\n"
      "  vitrine completion fish > ~/.config/fish/completions/vitrine.fish",
      {"shell", "bash, zsh or fish", 1, 1, {"bash", "zsh", "fish"}}, run);
}

}  // namespace vitrine::examples
