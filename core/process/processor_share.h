// File: core/process/processor_share.h
//
// How busy this machine's processors are, at this moment.
//
// Defines: ProcessorShare(), ParseProcessorShare().
//
//   // Half a second on a machine that is not busy, longer where programs wait for processors.
//   waited * ProcessorShare() < absl::Milliseconds(500)
//
// Thread safety: thread-safe. Blocking: never.

#ifndef CORE_PROCESS_PROCESSOR_SHARE_H_
#define CORE_PROCESS_PROCESSOR_SHARE_H_

#include "absl/strings/string_view.h"

namespace millrace {

// The part of the time in which a thread that wants to run has a processor, if all that want to now
// get the same: 1 while there are as many processors as such threads, 0.25 where there are four
// times as many threads. 1 where the system does not say.
[[nodiscard]] double ProcessorShare();

// The same from the text of /proc/loadavg.
[[nodiscard]] double ParseProcessorShare(absl::string_view loadavg, int processors);

}  // namespace millrace

#endif  // CORE_PROCESS_PROCESSOR_SHARE_H_
