package io.millrace.spark;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * What a cluster is made of: the arguments of TFCluster.run, and some more. Values are checked by {@link
 * MillraceCluster#run}. Immutable.
 */
public final class ClusterOptions {
  private final Builder from;

  private ClusterOptions(Builder from) {
    this.from = new Builder(from);
  }

  public static Builder builder() {
    return new Builder();
  }

  /** Nodes in all: ps, master, evaluator and workers. */
  public int numExecutors() {
    return from.numExecutors;
  }

  public int numPs() {
    return from.numPs;
  }

  /** "chief", "master" or "". */
  public String masterNode() {
    return from.masterNode;
  }

  public boolean evalNode() {
    return from.evalNode;
  }

  public boolean driverPsNodes() {
    return from.driverPsNodes;
  }

  public InputMode inputMode() {
    return from.inputMode;
  }

  public List<String> queues() {
    return from.queues;
  }

  /** A folder on every executor's host, or "". */
  public String logDir() {
    return from.logDir;
  }

  public boolean tensorboard() {
    return from.tensorboard;
  }

  public boolean releasePort() {
    return from.releasePort;
  }

  public Duration reservationTimeout() {
    return from.reservationTimeout;
  }

  public int nodesPerExecutor() {
    return from.nodesPerExecutor;
  }

  public int gpusPerNode() {
    return from.gpusPerNode;
  }

  /** GPUs of the nodes of some jobs, where they differ. */
  public Map<String, Integer> gpusByJob() {
    return from.gpusByJob;
  }

  public RestartPolicy restart() {
    return from.restart;
  }

  /** Of the jobs that differ. */
  public Map<String, RestartPolicy> restartByJob() {
    return from.restartByJob;
  }

  public QuarantinePolicy quarantine() {
    return from.quarantine;
  }

  public List<Sidecar> sidecars() {
    return from.sidecars;
  }

  /** null: nobody listens. */
  public ClusterObserver observer() {
    return from.observer;
  }

  /** "" stands for that of Spark's Hadoop configuration. */
  public String defaultFs() {
    return from.defaultFs;
  }

  /** Where nodes run; "" stands for the executor's own folder. */
  public String workingDir() {
    return from.workingDir;
  }

  /** "9000-9100", or "". */
  public String portRange() {
    return from.portRange;
  }

  /** "9000-9100", or "". */
  public String feedPortRange() {
    return from.feedPortRange;
  }

  /** "9000-9100", or "". */
  public String coordinatorPortRange() {
    return from.coordinatorPortRange;
  }

  public long feedBudgetBytes() {
    return from.feedBudgetBytes;
  }

  public boolean feedSharedMemory() {
    return from.feedSharedMemory;
  }

  public Duration stopGrace() {
    return from.stopGrace;
  }

  public Duration stopTimeout() {
    return from.stopTimeout;
  }

  public Map<String, String> env() {
    return from.env;
  }

  /** Collects the options. Not thread-safe. */
  public static final class Builder {
    private int numExecutors = 1;
    private int numPs;
    private String masterNode = "";
    private boolean evalNode;
    private boolean driverPsNodes;
    private InputMode inputMode = InputMode.DIRECT;
    private List<String> queues = Collections.unmodifiableList(Arrays.asList("input", "output", "error"));
    private String logDir = "";
    private boolean tensorboard;
    private boolean releasePort = true;
    private Duration reservationTimeout = Duration.ofMinutes(10);
    private int nodesPerExecutor;
    private int gpusPerNode;
    private Map<String, Integer> gpusByJob = Collections.emptyMap();
    private RestartPolicy restart = RestartPolicy.never();
    private Map<String, RestartPolicy> restartByJob = Collections.emptyMap();
    private QuarantinePolicy quarantine = QuarantinePolicy.defaults();
    private List<Sidecar> sidecars = Collections.emptyList();
    private ClusterObserver observer;
    private String defaultFs = "";
    private String workingDir = "";
    private String portRange = "";
    private String feedPortRange = "";
    private String coordinatorPortRange = "";
    private long feedBudgetBytes = 256L << 20;
    private boolean feedSharedMemory;
    private Duration stopGrace = Duration.ofSeconds(5);
    private Duration stopTimeout = Duration.ofSeconds(10);
    private Map<String, String> env = Collections.emptyMap();

    private Builder() {}

    private Builder(Builder other) {
      numExecutors = other.numExecutors;
      numPs = other.numPs;
      masterNode = other.masterNode;
      evalNode = other.evalNode;
      driverPsNodes = other.driverPsNodes;
      inputMode = other.inputMode;
      queues = other.queues;
      logDir = other.logDir;
      tensorboard = other.tensorboard;
      releasePort = other.releasePort;
      reservationTimeout = other.reservationTimeout;
      nodesPerExecutor = other.nodesPerExecutor;
      gpusPerNode = other.gpusPerNode;
      gpusByJob = other.gpusByJob;
      restart = other.restart;
      restartByJob = other.restartByJob;
      quarantine = other.quarantine;
      sidecars = other.sidecars;
      observer = other.observer;
      defaultFs = other.defaultFs;
      workingDir = other.workingDir;
      portRange = other.portRange;
      feedPortRange = other.feedPortRange;
      coordinatorPortRange = other.coordinatorPortRange;
      feedBudgetBytes = other.feedBudgetBytes;
      feedSharedMemory = other.feedSharedMemory;
      stopGrace = other.stopGrace;
      stopTimeout = other.stopTimeout;
      env = other.env;
    }

    /** Nodes in all: parameter servers, master, evaluator and workers. 1. */
    public Builder numExecutors(int value) {
      numExecutors = value;
      return this;
    }

    /** The first nodes are parameter servers. 0. */
    public Builder numPs(int value) {
      numPs = value;
      return this;
    }

    /** "chief" or "master": the role of the first node after the ps; "" (the default): worker:0 is first. */
    public Builder masterNode(String value) {
      masterNode = Objects.requireNonNull(value);
      return this;
    }

    /** The node after that evaluates. */
    public Builder evalNode(boolean value) {
      evalNode = value;
      return this;
    }

    /** The parameter servers run on the driver's host, without Spark slots. */
    public Builder driverPsNodes(boolean value) {
      driverPsNodes = value;
      return this;
    }

    /** DIRECT. */
    public Builder inputMode(InputMode value) {
      inputMode = Objects.requireNonNull(value);
      return this;
    }

    /** Names that train, inference and the nodes may use. "input", "output", "error". */
    public Builder queues(String... value) {
      queues = Collections.unmodifiableList(new ArrayList<>(Arrays.asList(value)));
      return this;
    }

    /** A folder on every executor's host for the nodes' output. Without one it goes with the node. */
    public Builder logDir(String value) {
      logDir = Objects.requireNonNull(value);
      return this;
    }

    /** TensorBoard on logDir beside the chief, or worker:0. */
    public Builder tensorboard(boolean value) {
      tensorboard = value;
      return this;
    }

    /** Whether a node's port is free when it starts; if not, it inherits the bound socket. true. */
    public Builder releasePort(boolean value) {
      releasePort = value;
      return this;
    }

    /** How long all nodes may take to come. Ten minutes. */
    public Builder reservationTimeout(Duration value) {
      reservationTimeout = Objects.requireNonNull(value);
      return this;
    }

    /**
     * How many nodes one executor may have. 0, the default: one, if there are as many executors as nodes, otherwise as
     * many as are needed; so local[4], or one executor of four cores, has up to four.
     */
    public Builder nodesPerExecutor(int value) {
      nodesPerExecutor = value;
      return this;
    }

    /**
     * GPUs of each node but a ps: the first of those that Spark's resource "gpu" gives its task; where Spark
     * gives none, claimed on the node's host. 0: all that Spark gives, and none is claimed.
     */
    public Builder gpusPerNode(int value) {
      gpusPerNode = value;
      return this;
    }

    /** Other numbers for some jobs: {"evaluator": 1, "ps": 0}. A node with 0 is given none. */
    public Builder gpusByJob(Map<String, Integer> value) {
      gpusByJob = Collections.unmodifiableMap(new LinkedHashMap<>(value));
      return this;
    }

    /** How often a node that failed is started again before that is the cluster's failure. Never. */
    public Builder restart(RestartPolicy value) {
      restart = Objects.requireNonNull(value);
      return this;
    }

    /** Of the jobs that differ: {"ps": RestartPolicy.never()}. */
    public Builder restartByJob(Map<String, RestartPolicy> value) {
      restartByJob = Collections.unmodifiableMap(new LinkedHashMap<>(value));
      return this;
    }

    /** When a host is left alone. */
    public Builder quarantine(QuarantinePolicy value) {
      quarantine = Objects.requireNonNull(value);
      return this;
    }

    /** Programs beside nodes. */
    public Builder sidecars(Sidecar... value) {
      sidecars = Collections.unmodifiableList(new ArrayList<>(Arrays.asList(value)));
      return this;
    }

    /** Hears on the driver what nodes write and measure. Nobody. */
    public Builder observer(ClusterObserver value) {
      observer = value;
      return this;
    }

    /** Default file system of the nodes' AbsolutePath. That of Spark's Hadoop configuration. */
    public Builder defaultFs(String value) {
      defaultFs = Objects.requireNonNull(value);
      return this;
    }

    /** Where nodes run. The executor's own folder. */
    public Builder workingDir(String value) {
      workingDir = Objects.requireNonNull(value);
      return this;
    }

    /** "9000-9100": where the nodes' reserved ports are taken from. Any. */
    public Builder portRange(String value) {
      portRange = Objects.requireNonNull(value);
      return this;
    }

    /** "9000-9100": where nodes are fed. Any. */
    public Builder feedPortRange(String value) {
      feedPortRange = Objects.requireNonNull(value);
      return this;
    }

    /** "9000-9100": where the driver listens for agents. Any. */
    public Builder coordinatorPortRange(String value) {
      coordinatorPortRange = Objects.requireNonNull(value);
      return this;
    }

    /** What one node may hold of the feed. 256 MiB. */
    public Builder feedBudgetBytes(long value) {
      feedBudgetBytes = value;
      return this;
    }

    /**
     * An executor writes rows into the memory of a node of its host, where the system lets it, instead of sending them
     * through a socket. false.
     */
    public Builder feedSharedMemory(boolean value) {
      feedSharedMemory = value;
      return this;
    }

    /** How long a node that was asked to stop may take. 5 s. */
    public Builder stopGrace(Duration value) {
      stopGrace = Objects.requireNonNull(value);
      return this;
    }

    /** How long a node may stay stopped by a signal (SIGSTOP) before it has failed. 10 s. */
    public Builder stopTimeout(Duration value) {
      stopTimeout = Objects.requireNonNull(value);
      return this;
    }

    /** Variables of every node's environment. */
    public Builder env(Map<String, String> value) {
      env = Collections.unmodifiableMap(new LinkedHashMap<>(value));
      return this;
    }

    public ClusterOptions build() {
      return new ClusterOptions(this);
    }
  }
}
