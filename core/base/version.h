// File: core/base/version.h
//
// Defines: kMillraceVersion.

#ifndef CORE_BASE_VERSION_H_
#define CORE_BASE_VERSION_H_

namespace millrace {

// What this build calls itself: the command line tools, agents to their coordinator, clusters to
// their readers. Not the version of any protocol. Its value is in //:version.bzl.
extern const char kMillraceVersion[];

}  // namespace millrace

#endif  // CORE_BASE_VERSION_H_
