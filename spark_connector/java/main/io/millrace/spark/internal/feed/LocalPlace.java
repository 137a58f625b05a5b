package io.millrace.spark.internal.feed;

import io.millrace.spark.internal.base.Text;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Which network namespace the local endpoints of a node are in: docs/feed_protocol.md, section 9. */
enum LocalPlace {
  /** In this process's: 127.0.0.1 is the node's too. */
  HERE,
  /** In another. */
  ELSEWHERE,
  /** The name, or this system, does not tell. */
  UNKNOWN;

  private static final Pattern NAME = Pattern.compile("ipc://@millrace-([0-9a-f]{16})-[0-9a-f]+");

  /** Of a node's "ipc" endpoint. */
  static LocalPlace of(String ipc) {
    Matcher name = NAME.matcher(ipc);
    String here = find();
    if (here.isEmpty() || !name.matches()) {
      return UNKNOWN;
    }
    return name.group(1).equals(here) ? HERE : ELSEWHERE;
  }

  private static String find() {
    try {
      String boot =
          new String(Files.readAllBytes(Paths.get("/proc/sys/kernel/random/boot_id")), StandardCharsets.UTF_8).trim();
      String text = boot + "/" + Files.readSymbolicLink(Paths.get("/proc/self/ns/net"));
      byte[] hash = MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
      return Text.hex(Arrays.copyOf(hash, 8));
    } catch (IOException e) {
      return "";
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException("every Java has SHA-256", e);
    }
  }
}
