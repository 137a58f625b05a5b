package io.millrace.spark.internal.feed;

import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.Json;
import io.millrace.spark.internal.base.JsonObject;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/** The metadata of ERROR, ABORT (a code and a message), TERMINATED (a message) and MAPPED (a reason). */
final class Messages {
  static final int MAX_DEPTH = 8;
  // Six bytes for each character at worst ("\\u001b"), and room for the code.
  private static final int MAX_CHARACTERS = 10_000;

  final StatusCode code;
  final String message;
  /** ERROR: it is the program's own, with which it has ended; another attempt may follow. */
  final boolean programEnded;

  private Messages(StatusCode code, String message, boolean programEnded) {
    this.code = code;
    this.message = message;
    this.programEnded = programEnded;
  }

  static byte[] encodeError(StatusCode code, String message) {
    return encodeError(code, message, false);
  }

  static byte[] encodeError(StatusCode code, String message, boolean programEnded) {
    Map<String, Object> members = new LinkedHashMap<>();
    members.put("code", code.name());
    members.put("message", shortened(message));
    if (programEnded) {
      members.put("program_ended", true);
    }
    return Json.write(members).getBytes(StandardCharsets.UTF_8);
  }

  static byte[] encodeTerminated(String message) {
    Map<String, Object> members = new LinkedHashMap<>();
    members.put("message", shortened(message));
    return Json.write(members).getBytes(StandardCharsets.UTF_8);
  }

  /** {@code reason}: why the segment cannot be used; "" if it can, for results too. */
  static byte[] encodeMapped(String reason) {
    Map<String, Object> members = new LinkedHashMap<>();
    members.put("reason", shortened(reason));
    if (reason.isEmpty()) {
      members.put("results", true);
    }
    return Json.write(members).getBytes(StandardCharsets.UTF_8);
  }

  static String decodeMapped(ByteBuffer metadata) throws BadInputException {
    JsonObject members = Json.parseObject(metadata, MAX_DEPTH);
    if (members.has("results")) {
      members.bool("results");
    }
    return members.string("reason");
  }

  /** Of ERROR and ABORT. A code that is no name of one is UNKNOWN. */
  static Messages decodeError(ByteBuffer metadata) throws BadInputException {
    JsonObject members = Json.parseObject(metadata, MAX_DEPTH);
    boolean programEnded = members.has("program_ended") && members.bool("program_ended");
    return new Messages(StatusCode.fromName(members.string("code")), members.string("message"), programEnded);
  }

  static Messages decodeTerminated(ByteBuffer metadata) throws BadInputException {
    JsonObject members = Json.parseObject(metadata, MAX_DEPTH);
    return new Messages(StatusCode.FAILED_PRECONDITION, members.string("message"), false);
  }

  // An unpaired surrogate cannot be written as UTF-8, and String.getBytes() makes it a question mark.
  private static String shortened(String message) {
    return message.length() <= MAX_CHARACTERS ? message : message.substring(0, MAX_CHARACTERS) + "...";
  }
}
