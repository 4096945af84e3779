#include "nn/training/interrupt.h"

#include <csignal>
#include <initializer_list>

namespace vitrine::nn::training {
namespace {

volatile std::sig_atomic_t caught = 0;

}  // namespace

void catch_signals() {
  for (const int signal : {SIGINT, SIGTERM})
    std::signal(signal, [](int number) {
      caught = number;
      if (number == SIGINT) std::signal(SIGINT, SIG_DFL);
    });
}

int caught_signal() { return caught; }

}  // namespace vitrine::nn::training
