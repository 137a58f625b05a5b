package io.millrace.spark.internal.cluster;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.JsonObject;
import io.millrace.spark.internal.feed.FeedHub;
import io.millrace.spark.internal.feed.FeedTarget;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Where the tasks of an executor find the nodes that they feed: what section 6 of docs/feed_protocol.md calls lookup.
 * Thread-safe.
 */
public final class NodeDirectory {
  private static final Logger LOG = LoggerFactory.getLogger(NodeDirectory.class);
  private static final long TARGET_NANOS = TimeUnit.SECONDS.toNanos(1);

  /** Where the node of an agent was to be reached. */
  private static final class KnownTarget {
    final FeedTarget target;
    final NodeAgent agent;
    final long nanos = System.nanoTime();
    boolean confirmed; // its program reads the feed: how, it has said before

    KnownTarget(FeedTarget target, NodeAgent agent) {
      this.target = target;
      this.agent = agent;
    }

    boolean isFresh() {
      return System.nanoTime() - nanos < TARGET_NANOS;
    }

    boolean holds(NodeAgent now) {
      return confirmed && isFresh() && agent == now && now.isRunning() && now.attempt() == target.attempt;
    }
  }

  private final CoordinatorLink link;
  private final NodePlaces places;
  // Guarded by this.
  private final Map<String, KnownTarget> targets = new HashMap<>(); // by key(), of nodes of this executor
  private FeedHub announced;

  NodeDirectory(CoordinatorLink link, NodePlaces places) {
    this.link = link;
    this.places = places;
  }

  /**
   * Where a partition is to go.
   *
   * @param executorId of the node to ask about; -1: the coordinator chooses
   */
  public FeedTarget lookup(String feed, long partition, int executorId) {
    Params params = Params.of("feed", feed).and("partition", partition);
    if (executorId >= 0) {
      params.and("executor_id", executorId);
    }
    return lookup(params);
  }

  /**
   * As {@link #lookup}: one that has little to do, or, where all read equally many batches, that with the fewest rows
   * once nothing is under way to it; busy while there is none.
   */
  public FeedTarget lookupPatiently(String feed, long partition) {
    return lookup(Params.of("feed", feed).and("partition", partition).and("patient", true));
  }

  private FeedTarget lookup(Params params) {
    try {
      FeedTarget target =
          FeedTarget.of(link.call("lookup", params), nonce -> ExecutorSite.hub().hasMetAnother(nonce));
      if (target.isCurve()) {
        announce();
      }
      return target;
    } catch (BadInputException e) {
      throw new MillraceException(StatusCode.INTERNAL, "a lookup's answer makes no sense: " + e.getMessage());
    }
  }

  /**
   * As {@link #lookup}, of a node of this executor, for a partition that nobody has fed yet. Once a partition of the
   * feed has come to its end there, the coordinator is asked once a second: that the node has ended its agent tells
   * here first.
   */
  public FeedTarget lookupFirst(String feed, long partition, int executorId) {
    NodeAgent agent = places.agent(executorId);
    synchronized (this) {
      KnownTarget known = targets.get(key(feed, executorId));
      if (known != null && known.holds(agent)) {
        return known.target;
      }
    }
    FeedTarget target = lookup(feed, partition, executorId);
    synchronized (this) {
      targets.values().removeIf(known -> !known.isFresh());
      if (agent != null && target.isRunning() && target.resumeRow == 0) {
        targets.put(key(feed, executorId), new KnownTarget(target, agent));
      }
    }
    return target;
  }

  private static String key(String feed, int executorId) {
    return executorId + " " + feed;
  }

  /** A session of the feed with this node has come to its end. */
  public synchronized void confirmTarget(String feed, FeedTarget target) {
    KnownTarget known = targets.get(key(feed, target.executorId));
    if (known != null && known.target.attempt == target.attempt) {
      known.confirmed = true;
    }
  }

  /** The next {@link #lookupFirst} asks: a session of the feed with this node has not come to its end. */
  public synchronized void forgetTarget(String feed, int executorId) {
    targets.remove(key(feed, executorId));
  }

  /** Makes this JVM's feeder known to nodes of other hosts, before it first comes to one. */
  private void announce() {
    FeedHub feeder = ExecutorSite.hub();
    synchronized (this) {
      if (announced == feeder) {
        return;
      }
    }
    // Two tasks may both do it: it is the same key, and none of them goes on before it is known.
    link.call("announce", Params.of("principal", feeder.principal()).and("curve_key", feeder.curveKey()));
    synchronized (this) {
      announced = feeder;
    }
  }

  /** Why a node is gone: the cluster's first cause if there is one, as that explains more. */
  public MillraceException cause(int executorId, String node) {
    try {
      MillraceException told = toldCause(executorId);
      return told == null ? new MillraceException(StatusCode.UNAVAILABLE, node + " is gone") : told;
    } catch (MillraceException e) {
      return new MillraceException(
          StatusCode.UNAVAILABLE, node + " is gone, and so is the cluster's coordinator: " + e.getMessage());
    }
  }

  /** Whether a node's last attempt has failed or was lost, and no other has begun. */
  public boolean hasFailed(int executorId) {
    return toldCause(executorId) != null;
  }

  private MillraceException toldCause(int executorId) {
    try {
      JsonObject reply = link.call("cause", Params.of("executor_id", executorId));
      for (String which : new String[] {"first_cause", "error"}) {
        if (reply.members().get(which) != null) {
          JsonObject error = reply.object(which);
          return new MillraceException(StatusCode.fromName(error.string("code")), error.string("message"));
        }
      }
    } catch (BadInputException e) {
      LOG.warn("the answer to cause makes no sense: {}", e.getMessage());
    }
    return null;
  }
}
