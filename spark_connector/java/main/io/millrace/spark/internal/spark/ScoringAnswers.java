package io.millrace.spark.internal.spark;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.arrow.ArrowSchema;
import io.millrace.spark.internal.arrow.BatchDecoder;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.rows.ResultReader;
import io.millrace.spark.internal.rows.SparkTypes;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Collections;
import java.util.Iterator;
import java.util.NoSuchElementException;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.types.StructType;

/** Puts the answers for each batch of {@link ScoringInputs} behind the rows of it, in the same task. */
final class ScoringAnswers implements FlatMapFunction<Iterator<byte[]>, InternalRow> {
  private static final long serialVersionUID = 1L;
  private static final int PREFIX_BYTES = 8; // of a message of Arrow: the second four are its length after these

  private final StructType outputs;

  ScoringAnswers(StructType outputs) {
    this.outputs = outputs;
  }

  @Override
  public Iterator<InternalRow> call(Iterator<byte[]> answers) {
    return new Rows(KeptRows.take(), answers, outputs);
  }

  private static final class Rows implements Iterator<InternalRow> {
    private final KeptRows kept;
    private final Iterator<byte[]> answers;
    private final ArrowSchema schema;
    private final BatchDecoder decoder;
    private final ResultReader reader;
    private final JoinedRow joined = new JoinedRow();
    private Iterator<InternalRow> answered = Collections.emptyIterator();

    Rows(KeptRows kept, Iterator<byte[]> answers, StructType outputs) {
      this.kept = kept;
      this.answers = answers;
      schema = SparkTypes.schema(outputs);
      decoder = new BatchDecoder(schema);
      reader = new ResultReader(outputs);
    }

    @Override
    public boolean hasNext() {
      while (!answered.hasNext() && answers.hasNext()) {
        answered = read(answers.next(), kept.nextBatch());
      }
      if (answered.hasNext()) {
        return true;
      }
      if (kept.nextBatch() != 0) {
        throw new MillraceException(StatusCode.INTERNAL, "Python has answered fewer batches than it was given");
      }
      kept.close();
      return false;
    }

    /** The answers for so many rows. */
    private Iterator<InternalRow> read(byte[] answer, int rows) {
      try {
        ByteBuffer bytes = ByteBuffer.wrap(answer).order(ByteOrder.LITTLE_ENDIAN);
        int length = answer.length < PREFIX_BYTES ? -1 : bytes.getInt(4);
        if (rows == 0 || length < 0 || length > answer.length - PREFIX_BYTES) {
          throw new BadInputException(answer.length + " bytes for " + rows + " rows");
        }
        ByteBuffer message = bytes.duplicate();
        message.limit(PREFIX_BYTES + length);
        bytes.position(PREFIX_BYTES + length);
        ByteBuffer body = bytes.slice().order(ByteOrder.LITTLE_ENDIAN);
        return reader.internalRows(schema, decoder.decode(message, rows, Collections.singletonList(body)), rows);
      } catch (BadInputException e) {
        throw new MillraceException(StatusCode.INTERNAL, "an answer of Python's that is none: " + e.getMessage());
      }
    }

    @Override
    public InternalRow next() {
      if (!hasNext()) {
        throw new NoSuchElementException("the partition has no more rows");
      }
      return joined.apply(kept.remove(), answered.next());
    }
  }
}
