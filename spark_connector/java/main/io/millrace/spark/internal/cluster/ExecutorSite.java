package io.millrace.spark.internal.cluster;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.arrow.BufferPool;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.JsonObject;
import io.millrace.spark.internal.feed.FeedHub;
import io.millrace.spark.internal.feed.FeedSession;
import io.millrace.spark.internal.feed.SessionState;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What one JVM, an executor's, has of one cluster: the agents of its nodes, the way to the coordinator, and
 * the sessions of which the ledger is told.
 *
 * <p>Thread-safe. Made when first asked for; gone when nothing is left of the cluster here. The hub, which
 * owns the sockets, and the memory of batches are shared by all clusters and stay.
 */
public final class ExecutorSite {
  private static final Logger LOG = LoggerFactory.getLogger(ExecutorSite.class);
  private static final long WATCH_MILLIS = 10;
  /** Reports go out so often, unless there are many sessions. */
  private static final long REPORT_NANOS = TimeUnit.MILLISECONDS.toNanos(200);
  private static final long REPORT_NANOS_PER_SESSION = TimeUnit.MILLISECONDS.toNanos(2);
  private static final long MAX_REPORT_NANOS = TimeUnit.SECONDS.toNanos(1);
  private static final long PACE_NANOS = TimeUnit.MILLISECONDS.toNanos(100);
  private static final long GATEWAY_IDLE_NANOS = TimeUnit.SECONDS.toNanos(3);
  private static final long LOOK_FOR_LOST_NANOS = TimeUnit.MILLISECONDS.toNanos(300);
  private static final long ROUTE_NANOS = TimeUnit.SECONDS.toNanos(1);
  /** How gRPC begins to say that nobody listens. */
  private static final String UNREACHABLE = "failed to connect";

  private static final Map<String, ExecutorSite> SITES = new HashMap<>();
  private static final BufferPool POOL = new BufferPool(256L << 20);
  private static FeedHub hub;

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

  private final String clusterId;
  private final CoordinatorAddress coordinator;
  // Guarded by this.
  private final TreeMap<Integer, NodeAgent> agents = new TreeMap<>();
  private final Set<Integer> claimed = new HashSet<>();
  private final Set<String> doneReading = new HashSet<>();
  private final List<FollowedSession> followed = new ArrayList<>();
  private final FeedPace pace = new FeedPace();
  private final Map<Integer, KnownRoute> routes = new HashMap<>(); // of nodes of this executor
  private final Map<Integer, Long> lostSince = new HashMap<>(); // nodes that are to be started again, when seen first
  private long lookedForLostNanos = System.nanoTime() - LOOK_FOR_LOST_NANOS;
  private final List<Params> deaths = new ArrayList<>(); // of agents, not told yet
  private ControlChild gateway;
  private int turn;
  private FeedHub announced;
  private long lastUseNanos = System.nanoTime();
  private int users;
  private boolean woken;
  private Thread watcher;
  // The watcher's.
  private CompletableFuture<JsonObject> paceAnswer;
  private long paceNanos = System.nanoTime();

  private ExecutorSite(String clusterId, CoordinatorAddress coordinator) {
    this.clusterId = clusterId;
    this.coordinator = coordinator;
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

  // ------------------------------------------------------------------------------------------- nodes

  /**
   * Takes a place for a node.
   *
   * @return false if the executor has as many nodes as it may, or this one runs here already
   */
  public synchronized boolean claim(int executorId, int nodesPerExecutor) {
    return claimed.size() < nodesPerExecutor && claimed.add(executorId);
  }

  /** Gives the place of {@link #claim} back. */
  public synchronized void unclaim(int executorId) {
    claimed.remove(executorId);
  }

  /** Whether there is a place, and no task has looked for a lost node for a moment. */
  public synchronized boolean mayLookForLost(int nodesPerExecutor) {
    if (claimed.size() >= nodesPerExecutor || System.nanoTime() - lookedForLostNanos < LOOK_FOR_LOST_NANOS) {
      return false;
    }
    lookedForLostNanos = System.nanoTime();
    return true;
  }

  /**
   * Notes whether a node is lost now.
   *
   * @return for how long it has been, as far as this executor has looked; -1 if it is not
   */
  public synchronized long lostForMillis(int executorId, boolean lost) {
    if (!lost) {
      lostSince.remove(executorId);
      return -1;
    }
    long now = System.nanoTime();
    return TimeUnit.NANOSECONDS.toMillis(now - lostSince.computeIfAbsent(executorId, id -> now));
  }

  /** Starts the agent of a node whose place was claimed; the place is free again when it has ended. */
  public NodeAgent startAgent(int executorId, Params params) {
    NodeAgent agent;
    try {
      agent = NodeAgent.start(coordinator, executorId, params, this::onAgentExit);
    } catch (RuntimeException e) {
      unclaim(executorId);
      throw e;
    }
    synchronized (this) {
      if (agent.child().isAlive()) { // otherwise its exit may have been told already
        agents.put(executorId, agent);
      } else {
        claimed.remove(executorId);
        noteDeath(agent);
      }
    }
    return agent;
  }

  private synchronized void noteDeath(NodeAgent agent) {
    Params death = agent.takeDeath();
    if (death != null) {
      deaths.add(death);
      notifyAll();
    }
  }

  /** Gives a place to an agent that none was claimed for, whatever else is here; nothing if it has ended. */
  public synchronized void keep(NodeAgent agent) {
    if (agents.get(agent.executorId()) == agent) {
      claimed.add(agent.executorId());
    }
  }

  private synchronized void onAgentExit(NodeAgent agent) {
    // One that was not taken for the node's has no place: that is the next attempt's, maybe.
    if (agents.remove(agent.executorId(), agent)) {
      claimed.remove(agent.executorId());
    }
    noteDeath(agent);
  }

  /**
   * The node of this executor that a task had better feed; -1 if there is none. Of several each in turn, those first
   * that have room.
   */
  public synchronized int localNode(String queue) {
    List<Integer> reading = new ArrayList<>();
    for (NodeAgent agent : agents.values()) {
      boolean fed = !agent.node().startsWith("ps:") && !agent.node().startsWith("evaluator:");
      if (fed && agent.isRunning() && !doneReading.contains(queue + "/" + agent.executorId())) {
        reading.add(agent.executorId());
      }
    }
    if (reading.size() > 1) {
      pace.update(followed);
      List<Integer> roomy = new ArrayList<>(reading);
      roomy.removeIf(id -> !pace.hasRoom(id));
      reading = roomy.isEmpty() ? reading : roomy;
    }
    return reading.isEmpty() ? -1 : reading.get((turn++ & Integer.MAX_VALUE) % reading.size());
  }

  /**
   * Whether a node may be given a partition to train on without asking who will be done with it first: it has little
   * unread by its pace, or, while nobody knows that, no whole partition.
   */
  public synchronized boolean hasRoom(int executorId) {
    pace.update(followed);
    return pace.hasRoom(executorId);
  }

  /** A node's program reads this queue no more. */
  public synchronized void stopPreferring(int executorId, String queue) {
    doneReading.add(queue + "/" + executorId);
  }

  // ------------------------------------------------------------------------------- the way to the driver

  private ControlChild link() {
    synchronized (this) {
      lastUseNanos = System.nanoTime();
      for (NodeAgent agent : agents.values()) {
        if (agent.isRunning() && agent.child().isAlive()) {
          return agent.child();
        }
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

  private JsonObject call(String method, Params params) {
    ControlChild link = link();
    try {
      return link.call(method, params);
    } catch (MillraceException e) {
      // The node has finished, and its agent with it: there is another way.
      if (e.code() == StatusCode.UNAVAILABLE && !link.isAlive()) {
        return link().call(method, params);
      }
      if (e.code() == StatusCode.UNAVAILABLE && e.getMessage().startsWith(UNREACHABLE)) {
        throw new MillraceException(
            StatusCode.UNAVAILABLE,
            "cluster " + clusterId + " has ended, or " + Hosts.local() + " cannot reach its coordinator at "
                + coordinator.address() + ": " + e.getMessage());
      }
      throw e;
    }
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

  /** As {@link #lookup}: one that has little to do; "busy" while none has. */
  public FeedRoute lookupPatiently(String feed, long partition) {
    return lookup(Params.of("feed", feed).and("partition", partition).and("patient", true));
  }

  private FeedRoute lookup(Params params) {
    try {
      FeedRoute route = new FeedRoute(call("lookup", params), nonce -> hub().hasMetAnother(nonce));
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
    NodeAgent agent;
    synchronized (this) {
      agent = agents.get(executorId);
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
    FeedHub feeder = hub();
    synchronized (this) {
      if (announced == feeder) {
        return;
      }
    }
    // Two tasks may both do it: it is the same key, and none of them goes on before it is known.
    call("announce", Params.of("principal", feeder.principal()).and("curve_key", feeder.curveKey()));
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
      JsonObject reply = call("cause", Params.of("executor_id", executorId));
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

  /** Tells the ledger; that it cannot be told is logged. */
  public void report(PartitionReport report, String state, SessionState session) {
    report(report, state, session, null);
  }

  /** As {@link #report}, with an error that another attempt would end with too. */
  public void report(PartitionReport report, String state, SessionState session, MillraceException error) {
    try {
      call("report", report.params(state, session).and("error", errorJson(error)));
    } catch (MillraceException e) {
      LOG.warn("the ledger did not take a partition: {}", e.getMessage());
    }
  }

  private static Params errorJson(MillraceException error) {
    return error == null ? null : Params.of("code", error.code().name()).and("message", error.getMessage());
  }

  /** The other end of {@link #enter}. */
  public synchronized void leave() {
    users--;
    lastUseNanos = System.nanoTime();
  }

  // -------------------------------------------------------------- what the ledger is told of sessions

  /**
   * Tells the ledger that a session begins; {@link FollowedSession#awaitBegun} has its answer. From then on it is told
   * at least each second how far the session came, and how it ends, also when the task has ended.
   */
  public FollowedSession follow(FeedSession session, PartitionReport report) {
    FollowedSession one =
        new FollowedSession(this, session, report, () -> sendReport(report.params("feeding", session.state())));
    synchronized (this) {
      followed.add(one);
      notifyAll();
    }
    return one;
  }

  CompletableFuture<JsonObject> sendReport(Params params) {
    return link().send("report", params);
  }

  /** Something has happened that the ledger is to know at once. */
  synchronized void wake() {
    woken = true;
    notifyAll();
  }

  private void watch() {
    long lastReport = System.nanoTime();
    while (true) {
      List<FollowedSession> now;
      synchronized (this) {
        try {
          if (deaths.isEmpty() && !woken) {
            wait(followed.isEmpty() && !pace.owes() ? 500 : WATCH_MILLIS);
          }
        } catch (InterruptedException e) {
          LOG.debug("an interrupt that nobody sends");
        }
        woken = false;
        now = new ArrayList<>(followed);
      }
      tellDeaths();
      tellPace(now);
      long interval = Math.max(REPORT_NANOS, now.size() * REPORT_NANOS_PER_SESSION);
      boolean all = System.nanoTime() - lastReport > Math.min(interval, MAX_REPORT_NANOS);
      if (all) {
        lastReport = System.nanoTime();
      }
      List<FollowedSession> told = new ArrayList<>();
      for (FollowedSession one : now) {
        if (one.tell(all)) {
          told.add(one);
        }
      }
      // Before the next round: a later report must not overtake an earlier one.
      Set<FollowedSession> over = new HashSet<>();
      for (FollowedSession one : told) {
        if (one.awaitAnswer()) {
          over.add(one);
        }
      }
      synchronized (this) {
        followed.removeAll(over);
        over.forEach(pace::ended);
      }
      if (now.isEmpty() && isOver()) {
        return;
      }
    }
  }

  /** Ten times a second: how far the nodes are, for whoever decides which one gets how much. */
  private void tellPace(List<FollowedSession> now) {
    if (paceAnswer != null && paceAnswer.isDone()) {
      CompletableFuture<JsonObject> answer = paceAnswer;
      paceAnswer = null;
      try {
        JsonObject members = ControlChild.await(answer, "pace");
        synchronized (this) {
          pace.onAnswer(members, now);
        }
      } catch (MillraceException | BadInputException e) {
        LOG.debug("the coordinator did not take the nodes' pace: {}", e.getMessage());
      }
    }
    if (paceAnswer != null || System.nanoTime() - paceNanos < PACE_NANOS) {
      return;
    }
    paceNanos = System.nanoTime();
    Params params;
    synchronized (this) {
      pace.update(followed);
      params = pace.params(hub().principal());
    }
    if (params != null) {
      try {
        paceAnswer = link().send("pace", params);
      } catch (MillraceException e) {
        LOG.debug("there is no way to tell the nodes' pace: {}", e.getMessage());
      }
    }
  }

  /** Says which agents were killed: otherwise the coordinator would wait for their leases. */
  private void tellDeaths() {
    List<Params> now;
    synchronized (this) {
      now = new ArrayList<>(deaths);
      deaths.clear();
    }
    for (Params death : now) {
      LOG.warn("the agent of node {} was killed by signal {}", death.get("executor_id"), death.get("signal"));
      try {
        call("agent_gone", death);
      } catch (MillraceException e) {
        LOG.warn("the coordinator cannot be told: {}", e.getMessage()); // it sees that the lease is over
      }
    }
  }

  /** Ends an idle gateway; returns true, and forgets the site, if nothing is left of the cluster here. */
  private boolean isOver() {
    ControlChild idle;
    synchronized (SITES) {
      synchronized (this) {
        boolean busy = users > 0 || !followed.isEmpty() || !deaths.isEmpty();
        if (busy || System.nanoTime() - lastUseNanos < GATEWAY_IDLE_NANOS) {
          return false;
        }
        idle = gateway;
        gateway = null;
        if (claimed.isEmpty()) {
          SITES.remove(clusterId);
          watcher = null;
        }
      }
    }
    if (idle != null) {
      idle.close();
    }
    synchronized (this) {
      return watcher != Thread.currentThread();
    }
  }
}
