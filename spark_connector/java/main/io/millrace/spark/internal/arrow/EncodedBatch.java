package io.millrace.spark.internal.arrow;

import java.nio.ByteBuffer;
import java.util.Collections;
import java.util.List;

/** A batch in wire form: one Arrow RecordBatch message and its body in parts. */
public final class EncodedBatch {
  private final int rows;
  private final byte[] message;
  private final List<ByteBuffer> parts;
  private final long bodyBytes;
  private final BufferPool pool;
  private List<ByteBuffer> memory;

  EncodedBatch(int rows, byte[] message, List<ByteBuffer> parts, BufferPool pool, List<ByteBuffer> memory) {
    this.rows = rows;
    this.message = message;
    this.parts = Collections.unmodifiableList(parts);
    this.pool = pool;
    this.memory = memory;
    long bytes = 0;
    for (ByteBuffer part : parts) {
      bytes += part.capacity();
    }
    this.bodyBytes = bytes;
  }

  public int rows() {
    return rows;
  }

  /** The encapsulated message. */
  public byte[] message() {
    return message;
  }

  /** Each part a slice of its own, of a multiple of 8 bytes; no buffer crosses two. */
  public List<ByteBuffer> parts() {
    return parts;
  }

  /** Bytes of the parts: of the body in one piece. */
  public long bodyBytes() {
    return bodyBytes;
  }

  /** Bytes of message and parts. */
  public long bytes() {
    return message.length + bodyBytes;
  }

  /** Gives the memory back for other batches; nobody may read or send the parts any more. Idempotent. */
  public void release() {
    for (ByteBuffer buffer : memory) {
      pool.give(buffer);
    }
    memory = Collections.emptyList();
  }
}
