// File: testing/eventually.h
//
// For what nothing tells: looks again and again whether it has come about. A test that can wait for
// an event (a condition variable, a message, an end of file) does that instead.
//
// Defines: Eventually().
//
//   ASSERT_TRUE(Eventually([&] { return coordinator->Snapshot().slots[0].attached; }));

#ifndef TESTING_EVENTUALLY_H_
#define TESTING_EVENTUALLY_H_

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace millrace {

// Whether `condition()` has held, looked at every few milliseconds and at the end once more.
template <typename Condition>
[[nodiscard]] bool Eventually(Condition condition, absl::Duration patience = absl::Minutes(1)) {
  const absl::Time deadline = absl::Now() + patience;
  while (true) {
    const bool last = absl::Now() >= deadline;
    if (condition()) return true;
    if (last) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
}

}  // namespace millrace

#endif  // TESTING_EVENTUALLY_H_
