// File: millrace/adoption_options.h
//
// When a slot moves from one agent to another, and how long it waits for one.
//
// Defines: AdoptionOptions.

#ifndef MILLRACE_ADOPTION_OPTIONS_H_
#define MILLRACE_ADOPTION_OPTIONS_H_

#include "absl/time/time.h"

namespace millrace {

struct AdoptionOptions {
  // How long the resolver must name another address for an agent that lives, before its node is
  // moved.
  absl::Duration settle = absl::Seconds(5);
  // How long a node that is to be started again may wait for an agent.
  absl::Duration replacement_timeout = absl::Seconds(600);
  // Wait for agents that serve another cluster; otherwise that is an error.
  bool wait_when_busy = true;
  // The resolver's members never change, so a slot without a member is an error at once.
  bool fixed_members = false;
};

}  // namespace millrace

#endif  // MILLRACE_ADOPTION_OPTIONS_H_
