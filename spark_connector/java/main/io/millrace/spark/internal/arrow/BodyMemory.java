package io.millrace.spark.internal.arrow;

import java.nio.ByteBuffer;

/** Memory of somebody else that a batch is encoded into, in place of a pool's, so that nobody copies its body later. */
public interface BodyMemory {
  /** The whole of it, little-endian. It begins at a multiple of 64 bytes. */
  ByteBuffer bytes();

  /** Nothing of it is needed any more. Idempotent. */
  void release();
}
