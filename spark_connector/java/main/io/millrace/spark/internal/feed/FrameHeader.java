package io.millrace.spark.internal.feed;

import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.BadInputException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** The 32 bytes that begin every frame (docs/feed_protocol.md, section 2). Immutable. */
public final class FrameHeader {
  static final int BYTES = 32;
  static final int VERSION = 2;
  static final int MAX_JSON_BYTES = 64 << 10;
  static final int MAX_SCHEMA_BYTES = 16 << 20;
  /** Of BATCH and RESULT: metadata and body. */
  static final long MAX_BATCH_BYTES = 1L << 30;

  private static final int MAGIC = 0x3146524D; // "MRF1", little-endian
  private static final int OPTIONAL = 1;

  /** null for a type that this version does not know. */
  final FrameType type;
  final int typeNumber;
  final int version;
  final int flags;
  final long session;
  final long seq;
  final int metadataLength;

  FrameHeader(FrameType type, long session, long seq, int metadataLength) {
    this(VERSION, type.number, type.isOptional() ? OPTIONAL : 0, session, seq, metadataLength);
  }

  private FrameHeader(int version, int typeNumber, int flags, long session, long seq, int metadataLength) {
    this.type = FrameType.of(typeNumber);
    this.typeNumber = typeNumber;
    this.version = version;
    this.flags = flags;
    this.session = session;
    this.seq = seq;
    this.metadataLength = metadataLength;
  }

  boolean optional() {
    return (flags & OPTIONAL) != 0;
  }

  String typeName() {
    return type != null ? type.name() : "type " + typeNumber;
  }

  byte[] encode() {
    return ByteBuffer.allocate(BYTES)
        .order(ByteOrder.LITTLE_ENDIAN)
        .putInt(MAGIC)
        .put((byte) version)
        .put((byte) typeNumber)
        .putShort((short) flags)
        .putLong(session)
        .putLong(seq)
        .putInt(metadataLength)
        .putInt(0)
        .array();
  }

  /**
   * Decodes a header; unknown types decode too.
   *
   * @throws BadInputException UNIMPLEMENTED if the version is another than ours ({@link #decodeForeign} says
   *     whose frame it was); INVALID_ARGUMENT if anything else is wrong
   */
  static FrameHeader decode(ByteBuffer bytes) throws BadInputException {
    FrameHeader header = decodeForeign(bytes);
    if (header == null) {
      throw new BadInputException("a header that is not a frame's");
    }
    if (header.version != VERSION && header.version != 0) {
      throw new BadInputException(
          StatusCode.UNIMPLEMENTED, "feed protocol version " + header.version + ", this end speaks " + VERSION);
    }
    if (bytes.remaining() != BYTES) {
      throw new BadInputException("a header of " + bytes.remaining() + " bytes");
    }
    if (header.version == 0 || (header.flags & ~OPTIONAL) != 0 || header.session == 0) {
      throw new BadInputException("a header with an impossible version, flag or session");
    }
    if (bytes.order(ByteOrder.LITTLE_ENDIAN).getInt(bytes.position() + 28) != 0) {
      throw new BadInputException("a header whose last field is not zero");
    }
    return header;
  }

  /** What can be told of a header of any version; null if this is none. */
  static FrameHeader decodeForeign(ByteBuffer bytes) {
    if (bytes.remaining() < BYTES) {
      return null;
    }
    ByteBuffer in = bytes.slice().order(ByteOrder.LITTLE_ENDIAN);
    if (in.getInt(0) != MAGIC) {
      return null;
    }
    return new FrameHeader(
        in.get(4) & 0xff, in.get(5) & 0xff, in.getShort(6) & 0xffff, in.getLong(8), in.getLong(16), in.getInt(24));
  }

  /**
   * Checks the other parts against the header: their number, and the size of the metadata.
   *
   * @param parts of the whole message, this one too
   * @param metadataBytes of part 1; 0 without one
   */
  void checkParts(int parts, int metadataBytes) throws BadInputException {
    int before = metadataLength == 0 ? 1 : 2;
    if (parts < before || metadataBytes != metadataLength && parts > 1) {
      throw new BadInputException(
          typeName() + " with " + metadataBytes + " bytes of metadata, its header says "
              + (metadataLength & 0xffffffffL));
    }
    if (type == null) {
      return;
    }
    if (parts > before && !type.hasBody() || parts > 1 && metadataLength == 0) {
      throw new BadInputException(typeName() + " in " + parts + " parts");
    }
    if (type.metadataBytes != 0 && metadataLength != type.metadataBytes) {
      throw new BadInputException(typeName() + " with " + metadataLength + " bytes of metadata");
    }
    if (type.hasBody() && metadataLength < BatchPrefix.BYTES) {
      throw new BadInputException(typeName() + " with " + metadataLength + " bytes of metadata");
    }
    if (type == FrameType.PLACED && metadataLength < PlacedPrefix.BYTES + BatchPrefix.BYTES) {
      throw new BadInputException(typeName() + " with " + metadataLength + " bytes of metadata");
    }
    if (type.isJson() && (metadataLength == 0 || metadataLength > MAX_JSON_BYTES)
        || type == FrameType.SCHEMA && (metadataLength == 0 || metadataLength > MAX_SCHEMA_BYTES)) {
      throw new BadInputException(typeName() + " with " + metadataLength + " bytes of metadata");
    }
  }
}
