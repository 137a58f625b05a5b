package io.millrace.spark.internal.feed;

import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.Json;
import io.millrace.spark.internal.base.JsonObject;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/** The metadata of ERROR, ABORT (a code and a message), TERMINATED (a message and a row) and MAPPED (a reason). */
final class Messages {
  static final int MAX_DEPTH = 8;
  // Six bytes for each character at worst ("\\u001b"), and room for the code.
  private static final int MAX_CHARACTERS = 10_000;

  final StatusCode code;
  final String message;
  /** ERROR: it is the program's own, with which it has ended; another attempt may follow. */
  final boolean programEnded;
  /** TERMINATED: the program was given the rows before it, and may use them; 0: those that it has acknowledged. */
  final long row;

  private Messages(StatusCode code, String message, boolean programEnded, long row) {
    this.code = code;
    this.message = message;
    this.programEnded = programEnded;
    this.row = row;
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
    return encodeTerminated(message, 0);
  }

  static byte[] encodeTerminated(String message, long row) {
    Map<String, Object> members = new LinkedHashMap<>();
    members.put("message", shortened(message));
    if (row > 0) {
      members.put("row", row);
    }
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
    return new Messages(StatusCode.fromName(members.string("code")), members.string("message"), programEnded, 0);
  }

  static Messages decodeTerminated(ByteBuffer metadata) throws BadInputException {
    JsonObject members = Json.parseObject(metadata, MAX_DEPTH);
    long row = members.has("row") ? members.count("row") : 0; // nodes of 0.2.0 do not say it
    return new Messages(StatusCode.FAILED_PRECONDITION, members.string("message"), false, row);
  }

  // An unpaired surrogate cannot be written as UTF-8, and String.getBytes() makes it a question mark.
  private static String shortened(String message) {
    return message.length() <= MAX_CHARACTERS ? message : message.substring(0, MAX_CHARACTERS) + "...";
  }
}
