package io.millrace.spark.internal.cluster;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.JsonObject;
import io.millrace.spark.internal.feed.FeedHub;
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
  private static final long ROUTE_NANOS = TimeUnit.SECONDS.toNanos(1);

  /** Where the node of an agent was to be reached. */
  private static final class KnownRoute {
    final FeedRoute route;
    final NodeAgent agent;
    final long nanos = System.nanoTime();

    KnownRoute(FeedRoute route, NodeAgent agent) {
      this.route = route;
      this.agent = agent;
    }
  }

  private final CoordinatorLink link;
  private final NodePlaces places;
  // Guarded by this.
  private final Map<Integer, KnownRoute> routes = new HashMap<>(); // of nodes of this executor
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
  public FeedRoute lookup(String feed, long partition, int executorId) {
    Params params = Params.of("feed", feed).and("partition", partition);
    if (executorId >= 0) {
      params.and("executor_id", executorId);
    }
    return lookup(params);
  }

  /** As {@link #lookup}: one that has little to do; busy while none has. */
  public FeedRoute lookupPatiently(String feed, long partition) {
    return lookup(Params.of("feed", feed).and("partition", partition).and("patient", true));
  }

  private FeedRoute lookup(Params params) {
    try {
      FeedRoute route =
          new FeedRoute(link.call("lookup", params), nonce -> ExecutorSite.hub().hasMetAnother(nonce));
      if (route.target != null && route.target.isCurve()) {
        announce();
      }
      return route;
    } catch (BadInputException e) {
      throw new MillraceException(StatusCode.INTERNAL, "a lookup's answer makes no sense: " + e.getMessage());
    }
  }

  /**
   * As {@link #lookup}, of a node of this executor, for a partition that nobody has fed yet. The coordinator is asked
   * once a second: that the node has ended its agent tells here first.
   */
  public FeedRoute lookupFirst(String feed, long partition, int executorId) {
    NodeAgent agent = places.agent(executorId);
    synchronized (this) {
      KnownRoute known = routes.get(executorId);
      boolean same =
          known != null && known.agent == agent && agent.isRunning() && agent.attempt() == known.route.attempt;
      if (same && System.nanoTime() - known.nanos < ROUTE_NANOS) {
        return known.route;
      }
      routes.remove(executorId);
    }
    FeedRoute route = lookup(feed, partition, executorId);
    if (agent != null && route.target != null && route.resumeRow == 0) {
      synchronized (this) {
        routes.put(executorId, new KnownRoute(route, agent));
      }
    }
    return route;
  }

  /** The next {@link #lookupFirst} asks: a session with this node has not come to its end. */
  public synchronized void forgetRoute(int executorId) {
    routes.remove(executorId);
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
