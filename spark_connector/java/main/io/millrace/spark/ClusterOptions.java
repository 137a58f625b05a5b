package io.millrace.spark;

import java.time.Duration;
import java.util.Objects;

/**
 * What a cluster is made of: the arguments of TFCluster.run, and groups of more. Values are checked by {@link
 * MillraceCluster#run}. What was not set, and has no value here, is null and has the default of ClusterOptions in C++,
 * which the builder names. Immutable.
 */
public final class ClusterOptions {
  private final String name;
  private final int numExecutors;
  private final int numPs;
  private final String masterNode;
  private final boolean evalNode;
  private final boolean driverPsNodes;
  private final InputMode inputMode;
  private final String logDir;
  private final Boolean tensorboard;
  private final Duration reservationTimeout;
  private final int nodesPerExecutor;
  private final NodeOptions node;
  private final FeedOptions feed;
  private final FailureOptions failure;
  private final ClusterObserver observer;
  private final String coordinatorPortRange;

  private ClusterOptions(Builder builder) {
    name = builder.name;
    numExecutors = builder.numExecutors;
    numPs = builder.numPs;
    masterNode = builder.masterNode;
    evalNode = builder.evalNode;
    driverPsNodes = builder.driverPsNodes;
    inputMode = builder.inputMode;
    logDir = builder.logDir;
    tensorboard = builder.tensorboard;
    reservationTimeout = builder.reservationTimeout;
    nodesPerExecutor = builder.nodesPerExecutor;
    node = builder.node;
    feed = builder.feed;
    failure = builder.failure;
    observer = builder.observer;
    coordinatorPortRange = builder.coordinatorPortRange;
  }

  public static Builder builder() {
    return new Builder();
  }

  /** Null if none was given. */
  public String name() {
    return name;
  }

  public int numExecutors() {
    return numExecutors;
  }

  public int numPs() {
    return numPs;
  }

  /** "chief", "master" or "". */
  public String masterNode() {
    return masterNode;
  }

  public boolean evalNode() {
    return evalNode;
  }

  public boolean driverPsNodes() {
    return driverPsNodes;
  }

  public InputMode inputMode() {
    return inputMode;
  }

  public String logDir() {
    return logDir;
  }

  public Boolean tensorboard() {
    return tensorboard;
  }

  public Duration reservationTimeout() {
    return reservationTimeout;
  }

  public int nodesPerExecutor() {
    return nodesPerExecutor;
  }

  public NodeOptions node() {
    return node;
  }

  public FeedOptions feed() {
    return feed;
  }

  public FailureOptions failure() {
    return failure;
  }

  /** null: nobody listens. */
  public ClusterObserver observer() {
    return observer;
  }

  public String coordinatorPortRange() {
    return coordinatorPortRange;
  }

  /** Collects the options. Not thread-safe. */
  public static final class Builder {
    private String name;
    private int numExecutors = 1;
    private int numPs;
    private String masterNode = "";
    private boolean evalNode;
    private boolean driverPsNodes;
    private InputMode inputMode = InputMode.DIRECT;
    private String logDir;
    private Boolean tensorboard;
    private Duration reservationTimeout;
    private int nodesPerExecutor;
    private NodeOptions node = NodeOptions.builder().build();
    private FeedOptions feed = FeedOptions.builder().build();
    private FailureOptions failure = FailureOptions.builder().build();
    private ClusterObserver observer;
    private String coordinatorPortRange;

    private Builder() {}

    /** What people see of the cluster beside its id: at most 64 bytes of UTF-8. */
    public Builder name(String value) {
      name = Objects.requireNonNull(value);
      return this;
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

    /** What every node gets, and what runs beside it. */
    public Builder node(NodeOptions value) {
      node = Objects.requireNonNull(value);
      return this;
    }

    /** How nodes are fed. */
    public Builder feed(FeedOptions value) {
      feed = Objects.requireNonNull(value);
      return this;
    }

    /** What becomes of nodes that fail, and how long one may take to end. */
    public Builder failure(FailureOptions value) {
      failure = Objects.requireNonNull(value);
      return this;
    }

    /** Hears on the driver what nodes write and measure. Default: nobody does. */
    public Builder observer(ClusterObserver value) {
      observer = value;
      return this;
    }

    /** "9000-9100": where the driver listens for agents. Any. */
    public Builder coordinatorPortRange(String value) {
      coordinatorPortRange = Objects.requireNonNull(value);
      return this;
    }

    public ClusterOptions build() {
      return new ClusterOptions(this);
    }
  }
}
