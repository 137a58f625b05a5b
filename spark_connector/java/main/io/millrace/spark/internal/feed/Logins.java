package io.millrace.spark.internal.feed;

import io.millrace.spark.internal.base.Text;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * The PLAIN logins of docs/feed_protocol.md, section 9: feeder and node prove to one another that they know the
 * node's key, which is never sent.
 */
final class Logins {
  private Logins() {}

  /** What a feeder logs in to a node with; {@code count} is greater at each login. */
  static String feederPassword(String key, String principal, long count) {
    String digits = String.format("%016x", count);
    return digits + mac(key, "feeder " + principal + " " + digits);
  }

  /** What a node logs in to the reply socket of {@code feeder} with: the answer to the challenge of its OPEN. */
  static String nodePassword(String key, String challenge, String feeder, String node) {
    return mac(key, "node " + challenge + " " + feeder + " " + node);
  }

  private static String mac(String key, String text) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(key.getBytes(StandardCharsets.UTF_8), "HmacSHA256"));
      return Text.hex(mac.doFinal(text.getBytes(StandardCharsets.UTF_8)));
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException("every Java has HmacSHA256", e);
    }
  }
}
