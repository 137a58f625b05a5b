package io.millrace.spark.ml;

import io.millrace.spark.MillraceCluster;
import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;

/**
 * The clusters that score for a model. It is held by the model, its copies and the tables that they have made; when
 * the last of these is gone, and with it this, the clusters end. Nothing else tells when nobody will ask for the rows
 * of a table again. Thread-safe.
 */
final class ModelNodes {
  // Static: a reference that is itself unreachable is never told of. One for each model whose nodes run.
  private static final Set<Watch> WATCHES = ConcurrentHashMap.newKeySet();
  private static final ReferenceQueue<ModelNodes> GONE = new ReferenceQueue<>();

  private final Clusters clusters = new Clusters();

  /** What outlives it, for as long as it takes to end. */
  private static final class Clusters {
    private final Map<String, MillraceCluster> running = new HashMap<>(); // by what they are

    synchronized MillraceCluster get(String what, Supplier<MillraceCluster> starter) {
      MillraceCluster found = running.get(what);
      if (found != null && !serves(found)) {
        running.remove(what).close();
        found = null;
      }
      if (found == null) {
        found = starter.get();
        running.put(what, found);
      }
      return found;
    }

    private static boolean serves(MillraceCluster cluster) {
      return !cluster.sparkContext().sc().isStopped() && cluster.failure() == null && !cluster.programsHaveEnded();
    }

    synchronized void close() {
      running.values().forEach(MillraceCluster::close);
      running.clear();
    }
  }

  private static final class Watch extends WeakReference<ModelNodes> {
    private final Clusters clusters;

    Watch(ModelNodes of) {
      super(of, GONE);
      clusters = of.clusters;
    }

    void end() {
      WATCHES.remove(this);
      clusters.close();
    }
  }

  /** Started by the first use. */
  private static final class Watcher {
    static {
      Thread thread = new Thread(Watcher::run, "millrace-models");
      thread.setDaemon(true);
      thread.start();
    }

    private Watcher() {}

    private static void run() {
      try {
        while (true) {
          ((Watch) GONE.remove()).end();
        }
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt(); // nobody does that
      }
    }

    static void watch(ModelNodes nodes) {
      WATCHES.add(new Watch(nodes));
    }
  }

  /**
   * The cluster that is {@code what}: the one that runs, if it still serves, or what {@code starter} starts. Blocks
   * while it starts.
   */
  MillraceCluster cluster(String what, Supplier<MillraceCluster> starter) {
    return clusters.get(
        what,
        () -> {
          endOthers();
          MillraceCluster started = starter.get();
          if (WATCHES.stream().noneMatch(watch -> watch.clusters == clusters)) {
            Watcher.watch(this);
          }
          return started;
        });
  }

  /** Ends the clusters; the next use starts others. */
  void close() {
    WATCHES.removeIf(watch -> watch.clusters == clusters);
    clusters.close();
  }

  /**
   * Ends the clusters of models that are gone, before another cluster needs their cores, memory and GPUs. Whether they
   * are is known after a collection of garbage: without nodes that score there is none.
   */
  static void endOthers() {
    if (WATCHES.isEmpty()) {
      return;
    }
    System.gc();
    for (Watch watch : WATCHES) {
      if (watch.get() == null) {
        watch.end();
      }
    }
  }
}
