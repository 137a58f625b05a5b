package io.millrace.spark.internal.feed;

import io.millrace.spark.internal.base.Text;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.zeromq.ZMQ;

/**
 * Who may connect to a hub's reply sockets: nodes that have its PLAIN key or whose CURVE key a lookup named, as
 * long as they keep to the protocol. For the hub's thread. Its sets are bounded by the attempts of all nodes.
 */
final class ReplyAdmission {
  private static final Pattern NODE_PRINCIPAL = Pattern.compile("node/[A-Za-z0-9/_.:-]{1,59}");

  private final String plainKey = Text.randomHex(16);
  private final Map<String, String> curveNodes = new HashMap<>(); // public key to principal
  private final Set<String> admitted = new HashSet<>();
  private final Set<String> barred = new HashSet<>();

  /** What OPEN tells nodes of this host; secret. */
  String plainKey() {
    return plainKey;
  }

  /** From here on the node with this CURVE key is admitted. */
  void expect(String curveKey, String principal) {
    curveNodes.put(curveKey, principal);
  }

  /** Nothing more is taken from it; false if it was so before. */
  boolean bar(String principal) {
    return barred.add(principal);
  }

  boolean isBarred(String principal) {
    return barred.contains(principal);
  }

  /** Whether it has connected to a reply socket, now or earlier. */
  boolean hasAdmitted(String principal) {
    return admitted.contains(principal);
  }

  // A request: version, id, domain, address, identity, mechanism, then user and password, or the public key.
  private static String text(List<byte[]> request, int i) {
    return new String(request.get(i), StandardCharsets.UTF_8);
  }

  /** For logs. */
  static String describe(List<byte[]> request) {
    if (request.size() == 8) {
      return Text.quoted(text(request, 6));
    }
    return request.size() == 7 ? "an unknown CURVE key, or one that is barred" : "nobody";
  }

  /** Whom the request names and is admitted, null for nobody. */
  String principalOf(List<byte[]> request) {
    if (request.size() < 7 || !text(request, 2).equals(HubSockets.ZAP_DOMAIN)) {
      return null;
    }
    String who = null;
    if (text(request, 5).equals("PLAIN") && request.size() == 8) {
      boolean known = MessageDigest.isEqual(request.get(7), plainKey.getBytes(StandardCharsets.UTF_8));
      who = known && NODE_PRINCIPAL.matcher(text(request, 6)).matches() ? text(request, 6) : null;
    } else if (text(request, 5).equals("CURVE") && request.get(6).length == 32) {
      who = curveNodes.get(ZMQ.Curve.z85Encode(request.get(6)));
    }
    if (who == null || barred.contains(who)) {
      return null;
    }
    admitted.add(who);
    return who;
  }
}
