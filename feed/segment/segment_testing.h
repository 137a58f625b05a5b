// File: feed/segment/segment_testing.h
//
// What a process holds, for tests that look for leaks. Test only.
//
// Defines: OpenDescriptors(), MappedSegments(), LiesInSegment().

#ifndef FEED_SEGMENT_SEGMENT_TESTING_H_
#define FEED_SEGMENT_SEGMENT_TESTING_H_

#include <cinttypes>
#include <cstdint>
#include <cstdio>
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

// How many segments are mapped here, the node's or a feeder's; or in process `pid`, 0 if that has
// ended.
inline int MappedSegments(const std::string& pid = "self") {
  std::ifstream maps("/proc/" + pid + "/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (absl::StrContains(line, "memfd:millrace-feed")) ++count;
  }
  return count;
}

// Whether `data` lies in a segment that is mapped here.
inline bool LiesInSegment(const void* data) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    if (absl::StrContains(line, "memfd:millrace-feed") &&
        std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &begin, &end) == 2 &&
        begin <= reinterpret_cast<uintptr_t>(data) && reinterpret_cast<uintptr_t>(data) < end) {
      return true;
    }
  }
  return false;
}

}  // namespace millrace

#endif  // FEED_SEGMENT_SEGMENT_TESTING_H_
