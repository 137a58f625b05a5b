// File: feed/segment/segment_testing.h
//
// What this process holds, for tests that look for leaks. Test only.
//
// Defines: OpenDescriptors(), MappedSegments().

#ifndef FEED_SEGMENT_SEGMENT_TESTING_H_
#define FEED_SEGMENT_SEGMENT_TESTING_H_

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/match.h"

namespace millrace {

// How many descriptors are open, with the one that looks.
inline int OpenDescriptors() {
  const std::filesystem::directory_iterator open("/proc/self/fd");
  return static_cast<int>(std::distance(begin(open), end(open)));
}

// How many segments are mapped here, the node's or a feeder's.
inline int MappedSegments() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (absl::StrContains(line, "memfd:millrace-feed")) ++count;
  }
  return count;
}

}  // namespace millrace

#endif  // FEED_SEGMENT_SEGMENT_TESTING_H_
