package io.millrace.spark.internal.cluster;

import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.JsonObject;
import io.millrace.spark.internal.feed.SessionState;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * How far the nodes are with what this JVM gave them for training, and what they may be given: the method "pace" of
 * docs/control_protocol.md. Guarded by the site.
 */
final class FeedPace {
  private static final class Node {
    int attempt;
    long ackedBefore; // by sessions that are followed no more
    long acked;
    long unread;
    int partitions; // received, and not acknowledged to the end
    long room = -1; // as the coordinator said last; -1: nobody knows its pace

    boolean hasRoom() {
      return room < 0 ? partitions == 0 : unread == 0 || unread < room;
    }
  }

  private final Map<Integer, Node> nodes = new HashMap<>();
  private boolean owes; // what was told last is not the end

  private Node nodeOf(FollowedSession session) {
    int attempt = session.report().nodeAttempt();
    Node node = nodes.get(session.report().executorId());
    if (node == null || node.attempt < attempt) {
      node = new Node();
      node.attempt = attempt;
      nodes.put(session.report().executorId(), node);
    }
    return node.attempt == attempt ? node : null;
  }

  private static long acked(FollowedSession session, SessionState state) {
    return state.ackedRows - session.report().firstRow();
  }

  /** Looks at the sessions that are followed. */
  void update(List<FollowedSession> followed) {
    for (Node node : nodes.values()) {
      node.acked = node.ackedBefore;
      node.unread = 0;
      node.partitions = 0;
    }
    for (FollowedSession session : followed) {
      Node node = nodeOf(session);
      if (node == null) {
        continue; // of an earlier attempt: it is about to end
      }
      SessionState state = session.state();
      node.acked += acked(session, state);
      if (state.isOpen()) {
        node.unread += Math.max(0, state.receivedRows - state.ackedRows);
        node.partitions += session.isReceived() ? 1 : 0;
      }
    }
  }

  /** This session is followed no more. */
  void ended(FollowedSession session) {
    Node node = nodeOf(session);
    if (node != null) {
      node.ackedBefore += acked(session, session.state());
    }
  }

  /** After {@link #update}: whether a node may be given a partition without asking the coordinator. */
  boolean hasRoom(int executorId) {
    Node node = nodes.get(executorId);
    return node == null || node.hasRoom();
  }

  /** Whether the coordinator is still to hear that all is acknowledged. */
  boolean owes() {
    return owes;
  }

  /** After {@link #update}: what to tell; null if there is nothing. */
  Params params(String feeder) {
    List<Params> told = new ArrayList<>();
    boolean open = false;
    for (Map.Entry<Integer, Node> entry : nodes.entrySet()) {
      Node node = entry.getValue();
      open |= node.unread > 0 || node.partitions > 0;
      told.add(
          Params.of("executor_id", entry.getKey())
              .and("node_attempt", node.attempt)
              .and("rows_acked", node.acked)
              .and("rows_unread", node.unread)
              .and("partitions", node.partitions));
    }
    if (!open && !owes) {
      return null;
    }
    owes = open;
    return Params.of("feeder", feeder).and("nodes", told);
  }

  /** Takes what the coordinator answered: how much may be given, and which sessions are to be taken back. */
  void onAnswer(JsonObject answer, List<FollowedSession> followed) throws BadInputException {
    for (Object one : answer.list("rooms")) {
      JsonObject room = (JsonObject) one;
      Node node = nodes.get((int) room.integer("executor_id"));
      if (node != null) {
        node.room = room.count("rows");
      }
    }
    for (Object one : answer.list("take_back")) {
      JsonObject taken = (JsonObject) one;
      String feed = taken.string("feed");
      long partition = taken.integer("partition");
      long feederAttempt = taken.integer("feeder_attempt");
      for (FollowedSession session : followed) {
        if (session.report().isOf(feed, partition, feederAttempt)) {
          session.takeBack();
        }
      }
    }
  }
}
