package io.millrace.spark.internal.arrow;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * A batch in wire form: one Arrow RecordBatch message and its body. The body lies in memory of a pool, in pieces that
 * are put together for whoever wants it, or in memory that was lent, where it is to be.
 */
public final class EncodedBatch {
  private final int rows;
  private final byte[] message;
  private final long bodyBytes;
  private final BufferPool pool;
  private final List<ByteBuffer> small; // each from a multiple of 8 bytes on, before the large ones
  private final List<ByteBuffer> large;
  private final BodyMemory lent;
  private List<ByteBuffer> memory; // of the pool

  /** {@code small} are gathered into the first part of the body, {@code large} are the other parts. */
  EncodedBatch(
      int rows,
      byte[] message,
      long bodyBytes,
      List<ByteBuffer> small,
      List<ByteBuffer> large,
      BufferPool pool,
      List<ByteBuffer> memory) {
    this.rows = rows;
    this.message = message;
    this.bodyBytes = bodyBytes;
    this.small = small;
    this.large = large;
    this.lent = null;
    this.pool = pool;
    this.memory = memory;
  }

  /** A body that begins with {@code lent}. */
  EncodedBatch(int rows, byte[] message, long bodyBytes, BodyMemory lent) {
    this.rows = rows;
    this.message = message;
    this.bodyBytes = bodyBytes;
    this.small = Collections.emptyList();
    this.large = Collections.emptyList();
    this.lent = lent;
    this.pool = null;
    this.memory = Collections.emptyList();
  }

  public int rows() {
    return rows;
  }

  /** The encapsulated message. */
  public byte[] message() {
    return message;
  }

  /** The memory that it lies in, from the first byte on; null if that is a pool's. */
  public BodyMemory lent() {
    return lent;
  }

  /** The body, each part a slice of its own, of a multiple of 8 bytes; no buffer crosses two. */
  public List<ByteBuffer> parts() {
    if (lent != null) {
      return Collections.singletonList(DirectBuffer.view(lent.bytes(), 0, (int) bodyBytes));
    }
    List<ByteBuffer> parts = new ArrayList<>();
    if (!small.isEmpty()) {
      parts.add(gathered());
    }
    parts.addAll(large);
    return parts;
  }

  private ByteBuffer gathered() {
    int bytes = 0;
    for (ByteBuffer piece : small) {
      bytes += (piece.capacity() + 7) & ~7;
    }
    ByteBuffer gathered = pool.take(bytes);
    memory.add(gathered);
    putSmall(DirectBuffer.view(gathered, 0, bytes));
    return DirectBuffer.view(gathered, 0, bytes);
  }

  private void putSmall(ByteBuffer target) {
    for (ByteBuffer piece : small) {
      target.put(piece.duplicate());
      for (int i = piece.capacity(); (i & 7) != 0; i++) {
        target.put((byte) 0);
      }
    }
  }

  /** Copies the body, in one piece, to where {@code target} stands. */
  public void copyBody(ByteBuffer target) {
    putSmall(target);
    for (ByteBuffer part : large) {
      target.put(part.duplicate());
    }
  }

  /** Bytes of the body in one piece. */
  public long bodyBytes() {
    return bodyBytes;
  }

  /** Bytes of message and body. */
  public long bytes() {
    return message.length + bodyBytes;
  }

  /** Gives the memory back for other batches; nobody may read or send the parts any more. Idempotent. */
  public void release() {
    for (ByteBuffer buffer : memory) {
      pool.give(buffer);
    }
    memory = Collections.emptyList();
    if (lent != null) {
      lent.release();
    }
  }
}
