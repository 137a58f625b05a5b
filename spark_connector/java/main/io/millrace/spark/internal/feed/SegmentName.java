package io.millrace.spark.internal.feed;

import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.Json;
import io.millrace.spark.internal.base.JsonObject;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;

/** SEGMENT: descriptor {@code fd} of process {@code pid}, a file that begins with {@code id}. Immutable. */
final class SegmentName {
  final long pid;
  final long fd;
  final long bytes;
  final String id;

  SegmentName(long pid, long fd, long bytes, String id) {
    this.pid = pid;
    this.fd = fd;
    this.bytes = bytes;
    this.id = id;
  }

  byte[] encode() {
    Map<String, Object> members = new LinkedHashMap<>();
    members.put("pid", pid);
    members.put("fd", fd);
    members.put("bytes", bytes);
    members.put("id", id);
    return Json.write(members).getBytes(StandardCharsets.UTF_8);
  }

  static SegmentName decode(ByteBuffer metadata) throws BadInputException {
    JsonObject members = Json.parseObject(metadata, Messages.MAX_DEPTH);
    return new SegmentName(
        members.count("pid"), members.count("fd"), members.count("bytes"), members.string("id"));
  }

  String path() {
    return "/proc/" + pid + "/fd/" + fd;
  }

  @Override
  public boolean equals(Object other) {
    if (!(other instanceof SegmentName)) {
      return false;
    }
    SegmentName that = (SegmentName) other;
    return pid == that.pid && fd == that.fd && bytes == that.bytes && id.equals(that.id);
  }

  @Override
  public int hashCode() {
    return Objects.hash(pid, fd, bytes, id);
  }
}
