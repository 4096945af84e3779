// Handles Ctrl-C and SIGTERM, which batch systems send: a training program stops after the current
// step.
#pragma once

namespace vitrine::nn::training {

/// Installs the handlers. The first SIGINT or SIGTERM is only recorded. A second Ctrl-C ends the
/// program at once. SIGTERM may be sent more than once.
void catch_signals();
/// The last signal; 0: none.
int caught_signal();
inline bool interrupted() { return caught_signal() != 0; }

}  // namespace vitrine::nn::training
