package io.millrace.spark.internal.feed;

import io.millrace.spark.internal.base.Text;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.zeromq.ZMQ;

/**
 * Who may connect to a hub's reply sockets: nodes that a lookup told of and that prove to know its PLAIN key, or
 * have its CURVE key, as long as they keep to the protocol. For the hub's thread. Its sets are bounded by the
 * attempts of all nodes.
 */
final class ReplyAdmission {
  private final String feeder;
  private final String challenge = Text.randomHex(16);
  private final Map<String, String> plainNodes = new HashMap<>(); // principal to key
  private final Map<String, String> curveNodes = new HashMap<>(); // public key to principal
  private final Set<String> barred = new HashSet<>();

  ReplyAdmission(String feeder) {
    this.feeder = feeder;
  }

  /** What OPEN asks nodes of this host. */
  String challenge() {
    return challenge;
  }

  /** From here on this node is admitted. */
  void expect(FeedTarget node) {
    if (node.isCurve()) {
      curveNodes.put(node.curveKey, node.principal());
    } else {
      plainNodes.put(node.principal(), node.key);
    }
  }

  /** Nothing more is taken from it; false if it was so before. */
  boolean bar(String principal) {
    return barred.add(principal);
  }

  boolean isBarred(String principal) {
    return barred.contains(principal);
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
      who = isProof(text(request, 6), request.get(7)) ? text(request, 6) : null;
    } else if (text(request, 5).equals("CURVE") && request.get(6).length == 32) {
      who = curveNodes.get(ZMQ.Curve.z85Encode(request.get(6)));
    }
    return who == null || barred.contains(who) ? null : who;
  }

  /** Which expected node a PLAIN request names without being that node's; null for none. */
  String falselyNamed(List<byte[]> request) {
    boolean plain = request.size() == 8 && text(request, 2).equals(HubSockets.ZAP_DOMAIN)
        && text(request, 5).equals("PLAIN");
    String who = plain ? text(request, 6) : null;
    return plainNodes.containsKey(who) && !isProof(who, request.get(7)) ? who : null;
  }

  private boolean isProof(String node, byte[] password) {
    String key = plainNodes.get(node);
    return key != null
        && MessageDigest.isEqual(
            password, Logins.nodePassword(key, challenge, feeder, node).getBytes(StandardCharsets.UTF_8));
  }
}
