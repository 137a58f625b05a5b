package io.millrace.spark.internal.feed;

import io.millrace.spark.internal.base.Text;
import org.zeromq.ZMQ;

/** Who a hub is to nodes. For the hub's thread, but for what is final. */
final class FeederIdentity {
  /** "feeder/&lt;hex&gt;". */
  final String principal = "feeder/" + Text.randomHex(8);
  final ZMQ.Curve.KeyPair curveKeys = ZMQ.Curve.generateKeyPair();
  private long logins; // made so far

  /** For the next login to a node of this host; no two are alike. */
  String password(FeedTarget target) {
    return Logins.feederPassword(target.key, principal, ++logins);
  }
}
