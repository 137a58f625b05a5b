package io.millrace.spark.internal.feed;

import java.util.Objects;

/** One attempt of a node, and where it receives rows: what a lookup answers. Immutable. */
public final class FeedTarget {
  final String node;
  final String nonce;
  final String endpoint;
  final String key;
  /** Z85; "" where the endpoint speaks PLAIN. */
  final String curveKey;

  /**
   * A node of this host.
   *
   * @param node "worker:1"
   * @param nonce names the attempt
   * @param endpoint "tcp://127.0.0.1:40123"
   * @param key what logins at the endpoint prove to know, both ways ({@link Logins}); secret
   */
  public FeedTarget(String node, String nonce, String endpoint, String key) {
    this(node, nonce, endpoint, key, "");
  }

  private FeedTarget(String node, String nonce, String endpoint, String key, String curveKey) {
    this.node = Objects.requireNonNull(node);
    this.nonce = Objects.requireNonNull(nonce);
    this.endpoint = Objects.requireNonNull(endpoint);
    this.key = Objects.requireNonNull(key);
    this.curveKey = Objects.requireNonNull(curveKey);
    if (!endpoint.startsWith("tcp://")) {
      throw new IllegalArgumentException(node + ": endpoint " + endpoint + "; a JVM reaches nodes by tcp only");
    }
  }

  /**
   * A node of another host, reached over CURVE; {@link FeedHub#curveKey} has to be announced first.
   *
   * @param endpoint the lookup's "curve", "tcp://198.51.100.7:40123"
   * @param curveKey its "curve_key", the node's public key as 40 characters of Z85
   */
  public static FeedTarget remote(String node, String nonce, String endpoint, String curveKey) {
    if (curveKey.length() != 40) {
      throw new IllegalArgumentException(node + ": a CURVE key of " + curveKey.length() + " characters");
    }
    return new FeedTarget(node, nonce, endpoint, "", curveKey);
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
