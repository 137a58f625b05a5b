package io.millrace.spark.internal.feed;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.JsonObject;
import java.util.Locale;
import java.util.Objects;
import java.util.function.Predicate;

/**
 * A fed node at one moment, and what the ledger has of a partition that is to go there: what a lookup answers.
 * Immutable.
 */
public final class FeedTarget {
  // For tests on one host: every node is taken for one of another host.
  private static final boolean CURVE_ONLY = Boolean.getBoolean("millrace.feed.curve");

  /** What a node is doing; {@link #BUSY} is told to who is patient. */
  public enum State {
    /** It has not published its endpoints yet. */
    STARTING,
    /** The endpoints are those of a living process. */
    RUNNING,
    /** The process is gone, another attempt follows. */
    RESTARTING,
    /** Exited with 0. */
    FINISHED,
    /** Will not come back. */
    FAILED,
    /** Nodes read, and have enough to do. */
    BUSY;

    @Override
    public String toString() {
      return name().toLowerCase(Locale.ROOT);
    }
  }

  public final State state;
  /** -1 while no node reads. */
  public final int executorId;
  /** "worker:1"; "" while no node reads, or none has little to do. */
  public final String node;
  public final int attempt;
  /** Rows of the partition before this one are acknowledged by this attempt of the node, as far as the ledger knows. */
  public final long resumeRow;
  public final PartitionState partitionState;
  /** With what the last session of the partition has ended, where it was reported; otherwise null. */
  public final MillraceException partitionError;
  /** All nodes read the queue in equally many batches: the coordinator says of each partition which one gets it. */
  public final boolean level;
  /** {@link State#BUSY} of such a queue: the rows that {@link #node}, which is next, has by now. */
  public final long fewestRows;
  // "" unless it is running.
  final String nonce;
  final String endpoint;
  final String key;
  /** Z85; "" where the endpoint speaks PLAIN. */
  final String curveKey;

  /** Where a node is to be reached. */
  private static final class Place {
    static final Place NONE = new Place("", "", "", "");

    final String nonce;
    final String endpoint;
    final String key;
    final String curveKey;

    Place(String nonce, String endpoint, String key, String curveKey) {
      this.nonce = Objects.requireNonNull(nonce);
      this.endpoint = Objects.requireNonNull(endpoint);
      this.key = Objects.requireNonNull(key);
      this.curveKey = Objects.requireNonNull(curveKey);
    }
  }

  /**
   * A node of this host, with a partition that was not fed before.
   *
   * @param node "worker:1"
   * @param nonce names the attempt
   * @param endpoint "tcp://127.0.0.1:40123"
   * @param key what logins at the endpoint prove to know, both ways ({@link Logins}); secret
   */
  public FeedTarget(String node, String nonce, String endpoint, String key) {
    this(node, new Place(nonce, endpoint, key, ""));
  }

  private FeedTarget(String node, Place place) {
    this(State.RUNNING, 0, node, 0, 0, PartitionState.PENDING, null, false, 0, place);
  }

  private FeedTarget(
      State state,
      int executorId,
      String node,
      int attempt,
      long resumeRow,
      PartitionState partitionState,
      MillraceException partitionError,
      boolean level,
      long fewestRows,
      Place place) {
    this.state = state;
    this.executorId = executorId;
    this.node = Objects.requireNonNull(node);
    this.attempt = attempt;
    this.resumeRow = resumeRow;
    this.partitionState = partitionState;
    this.partitionError = partitionError;
    this.level = level;
    this.fewestRows = fewestRows;
    nonce = place.nonce;
    endpoint = place.endpoint;
    key = place.key;
    curveKey = place.curveKey;
    if (state == State.RUNNING && !endpoint.startsWith("tcp://")) {
      throw new IllegalArgumentException(node + ": endpoint " + endpoint + "; a JVM reaches nodes by tcp only");
    }
  }

  /**
   * As the constructor, a node of another host, reached over CURVE; {@link FeedHub#curveKey} has to be announced first.
   *
   * @param endpoint the lookup's "curve", "tcp://198.51.100.7:40123"
   * @param curveKey its "curve_key", the node's public key as 40 characters of Z85
   */
  public static FeedTarget remote(String node, String nonce, String endpoint, String curveKey) {
    return new FeedTarget(node, remotePlace(node, nonce, endpoint, curveKey));
  }

  private static Place remotePlace(String node, String nonce, String endpoint, String curveKey) {
    if (curveKey.length() != 40) {
      throw new IllegalArgumentException(node + ": a CURVE key of " + curveKey.length() + " characters");
    }
    return new Place(nonce, endpoint, "", curveKey);
  }

  /**
   * Reads a lookup's answer.
   *
   * @param metAnother whether somebody else was met at the local address of the node with a nonce
   * @throws MillraceException UNAVAILABLE if the node cannot be reached from here
   */
  public static FeedTarget of(JsonObject lookup, Predicate<String> metAnother) throws BadInputException {
    State state = lookup.constant(State.class, "state");
    String node = lookup.stringOrEmpty("node");
    JsonObject error = lookup.members().get("partition_error") == null ? null : lookup.object("partition_error");
    return new FeedTarget(
        state,
        (int) lookup.integer("executor_id"),
        node,
        lookup.has("attempt") ? (int) lookup.integer("attempt") : 0,
        lookup.integer("resume_row"),
        lookup.constant(PartitionState.class, "partition_state"),
        error == null
            ? null
            : new MillraceException(StatusCode.fromName(error.string("code")), error.string("message")),
        lookup.has("level") && lookup.bool("level"),
        lookup.has("fewest_rows") ? lookup.integer("fewest_rows") : 0,
        state == State.RUNNING ? placeOf(node, lookup, metAnother) : Place.NONE);
  }

  private static Place placeOf(String node, JsonObject lookup, Predicate<String> metAnother)
      throws BadInputException {
    JsonObject endpoint = lookup.object("endpoint");
    String curve = endpoint.stringOrEmpty("curve");
    String nonce = lookup.string("nonce");
    LocalPlace place = LocalPlace.of(endpoint.stringOrEmpty("ipc"));
    boolean here = !CURVE_ONLY && place == LocalPlace.HERE && !metAnother.test(nonce);
    if (!here && !curve.isEmpty()) {
      return remotePlace(node, nonce, curve, endpoint.string("curve_key"));
    }
    if (place == LocalPlace.ELSEWHERE) {
      throw new MillraceException(
          StatusCode.UNAVAILABLE,
          node + " listens on another host, or in another network namespace, on loopback alone");
    }
    return new Place(nonce, endpoint.string("tcp"), endpoint.string("key"), "");
  }

  /** Whether there is somebody to be fed. */
  public boolean isRunning() {
    return state == State.RUNNING;
  }

  /** Whether it is reached over CURVE. */
  public boolean isCurve() {
    return !curveKey.isEmpty();
  }

  public String node() {
    return node;
  }

  public String nonce() {
    return nonce;
  }

  String principal() {
    return "node/" + nonce;
  }
}
