package io.millrace.spark.internal.feed;

/** A session as the hub has it: its way to the node, and the numbers of its frames. For the hub's thread. */
final class HubSession {
  final SessionReplies replies;
  HubConnection connection; // null once it is lost
  boolean opened; // OPEN went out
  boolean awaitsSegment; // which OPEN has asked for
  long outSeq;
  long inSeq;
  /** Steady time at which the session ends as BROKEN, 0 while its connection is there. */
  long brokenBy;
  String brokenWhy;

  HubSession(SessionReplies replies) {
    this.replies = replies;
  }

  FeedTarget target() {
    return replies.target();
  }
}
