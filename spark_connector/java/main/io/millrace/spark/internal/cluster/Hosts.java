package io.millrace.spark.internal.cluster;

import java.io.IOException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;

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
      // What the agents of this host say that they are on; Java's own way may take a name from DNS.
      byte[] name = Files.readAllBytes(Paths.get("/proc/sys/kernel/hostname"));
      return new String(name, StandardCharsets.UTF_8).trim();
    } catch (IOException e) {
      return findByAddress();
    }
  }

  private static String findByAddress() {
    try {
      return InetAddress.getLocalHost().getHostName();
    } catch (UnknownHostException e) {
      return "localhost";
    }
  }
}
