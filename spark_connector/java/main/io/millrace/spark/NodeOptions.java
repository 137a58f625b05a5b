package io.millrace.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * What every node gets, and what runs beside it. Its program, arguments and environment are a {@link NodeProgram}.
 * What was not set is null and has the default of NodeOptions in C++, which the builder names. Immutable.
 */
public final class NodeOptions {
  private final String workingDir;
  private final String defaultFs;
  private final Boolean releasePort;
  private final Integer gpusPerNode;
  private final Map<String, Integer> gpusByJob;
  private final Long logBytesPerSecond;
  private final List<Sidecar> sidecars;
  private final String portRange;

  private NodeOptions(Builder builder) {
    workingDir = builder.workingDir;
    defaultFs = builder.defaultFs;
    releasePort = builder.releasePort;
    gpusPerNode = builder.gpusPerNode;
    gpusByJob = builder.gpusByJob;
    logBytesPerSecond = builder.logBytesPerSecond;
    sidecars = builder.sidecars;
    portRange = builder.portRange;
  }

  public static Builder builder() {
    return new Builder();
  }

  public String workingDir() {
    return workingDir;
  }

  public String defaultFs() {
    return defaultFs;
  }

  public Boolean releasePort() {
    return releasePort;
  }

  public Integer gpusPerNode() {
    return gpusPerNode;
  }

  public Map<String, Integer> gpusByJob() {
    return gpusByJob;
  }

  public Long logBytesPerSecond() {
    return logBytesPerSecond;
  }

  public List<Sidecar> sidecars() {
    return sidecars;
  }

  public String portRange() {
    return portRange;
  }

  /** Collects the members. Not thread-safe. */
  public static final class Builder {
    private String workingDir;
    private String defaultFs;
    private Boolean releasePort;
    private Integer gpusPerNode;
    private Map<String, Integer> gpusByJob;
    private Long logBytesPerSecond;
    private List<Sidecar> sidecars;
    private String portRange;

    private Builder() {}

    /** Where nodes run. Default: the executor's own folder. */
    public Builder workingDir(String value) {
      workingDir = Objects.requireNonNull(value);
      return this;
    }

    /** File system of the nodes' AbsolutePath where a path names none. Default: that of Spark's Hadoop settings. */
    public Builder defaultFs(String value) {
      defaultFs = Objects.requireNonNull(value);
      return this;
    }

    /** Whether a node's port is free when it starts; if not, it inherits the bound socket. Default: true. */
    public Builder releasePort(boolean value) {
      releasePort = value;
      return this;
    }

    /**
     * GPUs of each node but a ps: the first of those that Spark's resource "gpu" gives its task; where Spark
     * gives none, claimed on the node's host. 0, as without it: all that Spark gives, and none is claimed.
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

    /**
     * How many bytes of its output each node may send to the observer per second; logDir has all of it. Default:
     * 64 KiB.
     */
    public Builder logBytesPerSecond(long value) {
      logBytesPerSecond = value;
      return this;
    }

    /** Programs beside nodes. Default: none. */
    public Builder sidecars(Sidecar... value) {
      sidecars = Collections.unmodifiableList(new ArrayList<>(Arrays.asList(value)));
      return this;
    }

    /** "9000-9100": where the nodes' reserved ports are taken from. Default: any. */
    public Builder portRange(String value) {
      portRange = Objects.requireNonNull(value);
      return this;
    }

    public NodeOptions build() {
      return new NodeOptions(this);
    }
  }
}
