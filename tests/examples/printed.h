// Runs a program of examples/ as a user does.
#pragma once

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace vitrine::test {

/// What it prints; that it ends without an error is checked.
inline std::string printed_by(const char* program) {
  FILE* const output = popen(program, "r");
  REQUIRE(output != nullptr);
  std::string text;
  for (int c; (c = std::fgetc(output)) != EOF;) text += static_cast<char>(c);
  CHECK(pclose(output) == 0);
  return text;
}

/// Checks that the program ends with an error if standard output is full.
inline void check_full_output(const std::string& program) {
  CHECK(std::system((program + " > /dev/full").c_str()) != 0);
}

}  // namespace vitrine::test
