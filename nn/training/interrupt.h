// Ctrl-C and SIGTERM, as batch systems send it: a training program ends after the step that runs.
#pragma once

namespace vitrine::nn::training {

/// From here on the first SIGINT or SIGTERM is only noted. A second Ctrl-C ends the program at
/// once; SIGTERM may come more than once.
void catch_signals();
/// The signal that came last; 0: none.
int caught_signal();
inline bool interrupted() { return caught_signal() != 0; }

}  // namespace vitrine::nn::training
