package io.millrace.spark.internal.feed;

import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.Json;
import io.millrace.spark.internal.base.JsonObject;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/** The metadata of OPEN. Immutable. */
final class OpenFrame {
  final String feedId;
  final String queue;
  final FeedMode mode;
  final long partition;
  final long dataEpoch;
  final long feederAttempt;
  final String nodeNonce;
  final long firstRow;
  final long resultLimit;
  final boolean sharedMemory;
  final String replyEndpoint;
  final String replyChallenge;
  /** Z85; "" unless the reply endpoint is a CURVE server. */
  final String replyCurveKey;

  OpenFrame(
      SessionOptions options,
      String nodeNonce,
      String replyEndpoint,
      String replyChallenge,
      String replyCurveKey) {
    this(
        options.feedId,
        options.queue,
        options.mode,
        options.partition,
        options.dataEpoch,
        options.feederAttempt,
        nodeNonce,
        options.firstRow,
        options.mode == FeedMode.INFERENCE ? ResultQueue.WINDOW_BYTES : 0,
        options.sharedMemory && replyCurveKey.isEmpty(),
        replyEndpoint,
        replyChallenge,
        replyCurveKey);
  }

  private OpenFrame(
      String feedId,
      String queue,
      FeedMode mode,
      long partition,
      long dataEpoch,
      long feederAttempt,
      String nodeNonce,
      long firstRow,
      long resultLimit,
      boolean sharedMemory,
      String replyEndpoint,
      String replyChallenge,
      String replyCurveKey) {
    this.feedId = feedId;
    this.queue = queue;
    this.mode = mode;
    this.partition = partition;
    this.dataEpoch = dataEpoch;
    this.feederAttempt = feederAttempt;
    this.nodeNonce = nodeNonce;
    this.firstRow = firstRow;
    this.resultLimit = resultLimit;
    this.sharedMemory = sharedMemory;
    this.replyEndpoint = replyEndpoint;
    this.replyChallenge = replyChallenge;
    this.replyCurveKey = replyCurveKey;
  }

  byte[] encode() {
    Map<String, Object> reply = new LinkedHashMap<>();
    reply.put("endpoint", replyEndpoint);
    reply.put("challenge", replyChallenge);
    if (!replyCurveKey.isEmpty()) {
      reply.put("curve_key", replyCurveKey);
    }
    Map<String, Object> open = new LinkedHashMap<>();
    open.put("feed_id", feedId);
    open.put("queue", queue);
    open.put("mode", mode.wireName);
    open.put("partition", partition);
    open.put("data_epoch", dataEpoch);
    open.put("feeder_attempt", feederAttempt);
    open.put("node_nonce", nodeNonce);
    open.put("first_row", firstRow);
    open.put("result_limit", resultLimit);
    if (sharedMemory) {
      open.put("shared_memory", true);
    }
    open.put("reply", reply);
    return Json.write(open).getBytes(StandardCharsets.UTF_8);
  }

  static OpenFrame decode(ByteBuffer metadata) throws BadInputException {
    JsonObject open = Json.parseObject(metadata, Messages.MAX_DEPTH);
    FeedMode mode = FeedMode.fromWire(open.string("mode"));
    long firstRow = open.count("first_row");
    if (mode == FeedMode.INFERENCE && firstRow != 0) {
      throw new BadInputException("\"first_row\" is not 0 in inference mode");
    }
    if (open.string("feed_id").isEmpty()) {
      throw new BadInputException("\"feed_id\" is empty");
    }
    JsonObject reply = open.object("reply");
    return new OpenFrame(
        open.string("feed_id"),
        open.string("queue"),
        mode,
        open.count("partition"),
        open.count("data_epoch"),
        open.count("feeder_attempt"),
        open.string("node_nonce"),
        firstRow,
        open.count("result_limit"),
        open.has("shared_memory") && open.bool("shared_memory"),
        reply.string("endpoint"),
        reply.string("challenge"),
        reply.stringOrEmpty("curve_key"));
  }
}
