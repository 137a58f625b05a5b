package io.millrace.spark.internal.cluster;

import io.millrace.spark.MillraceException;
import io.millrace.spark.internal.arrow.BufferPool;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.JsonObject;
import io.millrace.spark.internal.feed.FeedHub;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What one JVM, an executor's, has of one cluster: places for its nodes, the directory that says where nodes are, the
 * ledger of the sessions that feed from here, and the thread that watches over them.
 *
 * <p>Thread-safe. Made when first asked for; gone when nothing is left of the cluster here. The hub, which
 * owns the sockets, and the memory of batches are shared by all clusters and stay.
 */
public final class ExecutorSite {
  private static final Logger LOG = LoggerFactory.getLogger(ExecutorSite.class);
  /** While sessions are open, what is due is told so often; their ends, and agents', wake the watcher. */
  private static final long WATCH_MILLIS = 100;
  private static final long IDLE_WATCH_MILLIS = 500;

  private static final Map<String, ExecutorSite> SITES = new HashMap<>();
  private static final BufferPool POOL = new BufferPool(256L << 20);
  private static FeedHub hub;

  private final String clusterId;
  private final NodePlaces places;
  private final CoordinatorLink link;
  private final NodeDirectory directory;
  private final FeedLedger ledger;
  // Guarded by this.
  private int turn;
  private int users;
  private boolean woken;
  private Thread watcher;

  private ExecutorSite(String clusterId, CoordinatorAddress coordinator) {
    this.clusterId = clusterId;
    places = new NodePlaces(coordinator, this::wake);
    link = new CoordinatorLink(clusterId, coordinator, places);
    directory = new NodeDirectory(link, places);
    ledger = new FeedLedger(link, this::wake);
  }

  /**
   * This JVM's part of a cluster, for a task that calls {@link #leave} at its end. It stays until then, however
   * long the task stands still.
   */
  public static ExecutorSite enter(String clusterId, CoordinatorAddress coordinator) {
    synchronized (SITES) {
      ExecutorSite site = SITES.computeIfAbsent(clusterId, id -> new ExecutorSite(id, coordinator));
      synchronized (site) {
        site.users++;
        if (site.watcher == null) {
          site.watcher = new Thread(site::watch, "millrace-site");
          site.watcher.setDaemon(true);
          site.watcher.start();
        }
      }
      return site;
    }
  }

  /** The other end of {@link #enter}. */
  public synchronized void leave() {
    users--;
    link.touch();
  }

  /** The feeder of this JVM; another one if that has lost its I/O thread. */
  public static synchronized FeedHub hub() {
    if (hub == null || !hub.isAlive()) {
      hub = FeedHub.start(warning -> LOG.warn("feed: {}", warning));
    }
    return hub;
  }

  /** Memory for batches. */
  public static BufferPool pool() {
    return POOL;
  }

  public NodePlaces places() {
    return places;
  }

  public NodeDirectory directory() {
    return directory;
  }

  public FeedLedger ledger() {
    return ledger;
  }

  /**
   * The node of this executor that a task had better feed; -1 if there is none. Of several each in turn, those first
   * that have room.
   */
  public int localNode(String queue) {
    List<Integer> reading = places.reading(queue);
    if (reading.size() > 1) {
      List<Integer> roomy = new ArrayList<>(reading);
      roomy.removeIf(id -> !ledger.hasRoom(id));
      reading = roomy.isEmpty() ? reading : roomy;
    }
    return reading.isEmpty() ? -1 : reading.get((nextTurn() & Integer.MAX_VALUE) % reading.size());
  }

  private synchronized int nextTurn() {
    return turn++;
  }

  // ------------------------------------------------------------------------------------- the watcher

  /** Something has happened that the coordinator is to know at once. */
  private synchronized void wake() {
    woken = true;
    notifyAll();
  }

  private void watch() {
    while (true) {
      boolean idle = ledger.isIdle();
      synchronized (this) {
        try {
          if (!woken) {
            wait(idle ? IDLE_WATCH_MILLIS : WATCH_MILLIS);
          }
        } catch (InterruptedException e) {
          LOG.debug("an interrupt that nobody sends");
        }
        woken = false;
      }
      tellDeaths();
      ledger.tell();
      if (isOver()) {
        return;
      }
    }
  }

  /**
   * Says which agents were killed, as otherwise the coordinator would wait for their leases, and replaces those whose
   * nodes are to be started again. The replacement is there before that is due.
   */
  private void tellDeaths() {
    for (NodeAgent dead : places.takeDeaths()) {
      Params death = dead.death();
      LOG.warn("the agent of node {} was killed by signal {}", death.get("executor_id"), death.get("signal"));
      boolean awaited = false;
      try {
        JsonObject reply = link.call("agent_gone", death);
        awaited = reply.has("awaits_agent") && reply.bool("awaits_agent");
      } catch (MillraceException e) {
        LOG.warn("the coordinator cannot be told: {}", e.getMessage()); // it sees that the lease is over
      } catch (BadInputException e) {
        LOG.warn("the answer to agent_gone makes no sense: {}", e.getMessage());
      }
      places.succeed(dead, awaited);
    }
  }

  /** Ends an idle gateway; returns true, and forgets the site, if nothing is left of the cluster here. */
  private boolean isOver() {
    synchronized (SITES) {
      synchronized (this) {
        if (users > 0 || ledger.isFollowing() || places.hasDeaths() || !link.isIdle()) {
          return false;
        }
        if (places.areFree()) {
          SITES.remove(clusterId);
          watcher = null;
        }
      }
    }
    link.closeIfIdle();
    synchronized (this) {
      return watcher != Thread.currentThread();
    }
  }
}
