package io.millrace.spark.internal.cluster;

import java.net.InetAddress;
import java.net.UnknownHostException;

/** Names of hosts. */
final class Hosts {
  private static final String LOCAL = find();

  private Hosts() {}

  /** This host's name, as an error message should have it. */
  static String local() {
    return LOCAL;
  }

  private static String find() {
    try {
      return InetAddress.getLocalHost().getHostName();
    } catch (UnknownHostException e) {
      return "localhost";
    }
  }
}
