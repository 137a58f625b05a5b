package io.millrace.spark.internal.feed;

import io.millrace.spark.internal.arrow.ArrowSchema;
import io.millrace.spark.internal.arrow.BatchDecoder;
import io.millrace.spark.internal.arrow.SchemaMessage;
import io.millrace.spark.internal.base.BadInputException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.List;

/**
 * The results of an inference session that have come and were not taken, and what the node may send beyond them.
 * Guarded by the session's lock.
 */
final class ResultQueue {
  /** Bytes of results that the node may send ahead of those that were taken, and one more. */
  static final long WINDOW_BYTES = 16 << 20;

  /** A result as it came. Immutable; decoded without the lock. */
  static final class Pending {
    final BatchPrefix prefix;
    private final ByteBuffer message;
    private final List<ByteBuffer> parts;
    private final BatchDecoder decoder;
    private final long bytes;

    private Pending(BatchPrefix prefix, ByteBuffer message, List<ByteBuffer> parts, BatchDecoder decoder) {
      this.prefix = prefix;
      this.message = message;
      this.parts = parts;
      this.decoder = decoder;
      long sum = BatchPrefix.BYTES + message.remaining();
      for (ByteBuffer part : parts) {
        sum += part.remaining();
      }
      this.bytes = sum;
    }

    FeedResult decode() throws BadInputException {
      ArrowSchema schema = decoder.schema();
      return new FeedResult(prefix.firstRow, prefix.rows, schema, decoder.decode(message, prefix.rows, parts));
    }
  }

  private final ArrayDeque<Pending> results = new ArrayDeque<>();
  private BatchDecoder decoder; // once SCHEMA is here
  private long unreadBytes;
  private long arrivedBytes;
  private long limit = WINDOW_BYTES; // that the node was told

  boolean hasSchema() {
    return decoder != null;
  }

  void setSchema(ByteBuffer metadata) throws BadInputException {
    decoder = new BatchDecoder(SchemaMessage.decode(metadata));
  }

  /** Whether the node may send another result. */
  void checkCredit() throws BadInputException {
    if (arrivedBytes >= limit) {
      throw new BadInputException("RESULT beyond its credit: bytes, and the limit " + arrivedBytes + ", " + limit);
    }
  }

  void add(BatchPrefix prefix, ByteBuffer metadata, List<ByteBuffer> body) {
    ByteBuffer message = metadata.duplicate();
    message.position(message.position() + BatchPrefix.BYTES);
    Pending pending = new Pending(prefix, message.slice(), body, decoder);
    unreadBytes += pending.bytes;
    arrivedBytes += pending.bytes;
    results.addLast(pending);
  }

  boolean isEmpty() {
    return results.isEmpty();
  }

  /** The next one, null if there is none. */
  Pending poll() {
    Pending result = results.pollFirst();
    if (result != null) {
      unreadBytes -= result.bytes;
    }
    return result;
  }

  /** The limit that the node is to be told now; 0 if the one before will do for a while. */
  long raiseLimit() {
    long next = arrivedBytes - unreadBytes + WINDOW_BYTES;
    if (next - limit < WINDOW_BYTES / 4) {
      return 0;
    }
    limit = next;
    return next;
  }

  long unreadBytes() {
    return unreadBytes;
  }

  void clear() {
    results.clear();
    unreadBytes = 0;
  }
}
