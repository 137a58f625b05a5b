package io.millrace.spark.internal.feed;

import java.util.Objects;

/** One attempt of a node, and where it receives rows: what a lookup answers. Immutable. */
public final class FeedTarget {
  final String node;
  final String nonce;
  final String endpoint;
  final String key;

  /**
   * A target.
   *
   * @param node "worker:1"
   * @param nonce names the attempt
   * @param endpoint "tcp://127.0.0.1:40123"
   * @param key PLAIN password of the endpoint; secret
   */
  public FeedTarget(String node, String nonce, String endpoint, String key) {
    this.node = Objects.requireNonNull(node);
    this.nonce = Objects.requireNonNull(nonce);
    this.endpoint = Objects.requireNonNull(endpoint);
    this.key = Objects.requireNonNull(key);
    if (!endpoint.startsWith("tcp://")) {
      throw new IllegalArgumentException(node + ": endpoint " + endpoint + "; a JVM reaches nodes by tcp only");
    }
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
