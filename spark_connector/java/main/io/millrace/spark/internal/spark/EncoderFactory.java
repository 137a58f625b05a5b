package io.millrace.spark.internal.spark;

import io.millrace.spark.internal.arrow.BufferPool;
import io.millrace.spark.internal.rows.RowEncoder;
import java.io.Serializable;

/** Makes the encoder of a partition's rows, on an executor. */
public interface EncoderFactory<T> extends Serializable {
  /** An encoder, for one thread. */
  RowEncoder<T> create(BufferPool pool);
}
