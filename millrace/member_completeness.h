// File: millrace/member_completeness.h
//
// When the members that a resolver finds make a cluster.
//
// Defines: MemberCompleteness.

#ifndef MILLRACE_MEMBER_COMPLETENESS_H_
#define MILLRACE_MEMBER_COMPLETENESS_H_

namespace millrace {

enum class MemberCompleteness {
  // All that the cluster should have are there; otherwise FAILED_PRECONDITION, saying who is not.
  kRequireAll,
  // As kRequireAll, but cluster_spec() waits for it, at most wait_timeout; then DEADLINE_EXCEEDED.
  // A watch tells FAILED_PRECONDITION until it is so.
  kWait,
  // Those that are there, perhaps none.
  kAvailable,
};

}  // namespace millrace

#endif  // MILLRACE_MEMBER_COMPLETENESS_H_
