package io.millrace.spark.internal.cluster;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.JsonObject;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The way from an executor to its cluster's coordinator: an agent that runs here, otherwise a gateway, which is
 * started when it is needed and ended when it has been idle. Thread-safe.
 */
final class CoordinatorLink {
  private static final Logger LOG = LoggerFactory.getLogger(CoordinatorLink.class);
  private static final long IDLE_NANOS = TimeUnit.SECONDS.toNanos(3);

  private final String clusterId;
  private final CoordinatorAddress coordinator;
  private final NodePlaces places;
  // Guarded by this.
  private ControlChild gateway;
  private long lastUseNanos = System.nanoTime();

  CoordinatorLink(String clusterId, CoordinatorAddress coordinator, NodePlaces places) {
    this.clusterId = clusterId;
    this.coordinator = coordinator;
    this.places = places;
  }

  private ControlChild child() {
    ControlChild agent = places.runningAgent();
    synchronized (this) {
      lastUseNanos = System.nanoTime();
      if (agent != null) {
        return agent;
      }
      if (gateway != null && gateway.isAlive()) {
        return gateway;
      }
      // Held meanwhile: the tasks of an executor need one, not one each.
      gateway = ControlChild.start("gateway", "gateway", new Silent());
      gateway.call("start", Params.of("coordinator", coordinator.toJson()));
      return gateway;
    }
  }

  private static final class Silent implements ControlChild.Listener {
    @Override
    public void onEvent(String event, JsonObject members) throws BadInputException {
      LOG.debug("gateway: {} {}", event, members);
    }

    @Override
    public void onExit(int exitCode) {
      LOG.debug("gateway: ended with {}", exitCode);
    }
  }

  /**
   * Sends a request and waits for its answer: also for one that comes late, as the coordinator was stopped or out of
   * reach ({@link Retries}).
   *
   * @throws MillraceException what was answered; UNAVAILABLE if nobody can be asked
   */
  JsonObject call(String method, Params params) {
    return call(method, params, Retries.patient(method));
  }

  /** As {@link #call}, once the coordinator is there: of a request that may be left out. */
  JsonObject tryCall(String method, Params params) {
    return call(method, params, Retries.impatient(method));
  }

  private JsonObject call(String method, Params params, Retries retries) {
    while (true) {
      ControlChild child = child();
      try {
        return child.call(method, params);
      } catch (MillraceException e) {
        if (retries.mayGoOn(e)) {
          retries.pause(e);
          continue;
        }
        if (Retries.isUnreachable(e)) {
          throw new MillraceException(
              StatusCode.UNAVAILABLE,
              "cluster " + clusterId + " has ended, or " + Hosts.local() + " cannot reach its coordinator at "
                  + coordinator.address() + ": " + e.getMessage());
        }
        throw e;
      }
    }
  }

  /** Sends a request, once. */
  CompletableFuture<JsonObject> send(String method, Params params) {
    return child().send(method, params);
  }

  /** It counts as used now. */
  synchronized void touch() {
    lastUseNanos = System.nanoTime();
  }

  synchronized boolean isIdle() {
    return System.nanoTime() - lastUseNanos >= IDLE_NANOS;
  }

  /** Ends the gateway, if there is one and nobody has used the link for a while. */
  void closeIfIdle() {
    ControlChild idle;
    synchronized (this) {
      if (!isIdle()) {
        return;
      }
      idle = gateway;
      gateway = null;
    }
    if (idle != null) {
      idle.close();
    }
  }
}
