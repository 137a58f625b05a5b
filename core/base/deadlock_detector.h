// File: core/base/deadlock_detector.h
//
// Abseil's detector of lock cycles, which Debian's builds have switched on: they are made without
// NDEBUG. It follows the order of all locks of the process, those of gRPC included, under one lock
// of its own: with ten thousand streams that is a tenth of what joining costs, and where threads
// meet.
//
// Defines: StopDeadlockDetector().

#ifndef CORE_BASE_DEADLOCK_DETECTOR_H_
#define CORE_BASE_DEADLOCK_DETECTOR_H_

#ifdef NDEBUG
#include "absl/synchronization/mutex.h"
#endif

namespace millrace {

// For the whole process, in optimised builds (NDEBUG) only: in others, tests among them, the
// detector stays on and aborts at the first cycle. Called by Coordinator::Start and RunNode.
// Thread-safe, idempotent.
inline void StopDeadlockDetector() {
#ifdef NDEBUG
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif
}

}  // namespace millrace

#endif  // CORE_BASE_DEADLOCK_DETECTOR_H_
