package io.millrace.spark.internal.spark;

import io.millrace.spark.internal.base.Text;
import io.millrace.spark.internal.cluster.CoordinatorProcess;
import io.millrace.spark.internal.rows.DataFrames;
import java.util.ArrayDeque;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.LongAccumulator;

/**
 * The ledger's feeds of inference calls. One is open as long as its results may be asked for, and nobody says
 * when that ends: the oldest of more than {@link #MAX_OPEN} is closed. Thread-safe.
 */
public final class InferenceFeeds {
  private static final int MAX_OPEN = 512;

  private final CoordinatorProcess coordinator;
  private final ArrayDeque<String> open = new ArrayDeque<>();

  public InferenceFeeds(CoordinatorProcess coordinator) {
    this.coordinator = coordinator;
  }

  /** The name of a new feed. */
  public synchronized String open(String queue, int partitions) {
    String feed = "inference-" + Text.randomHex(8);
    if (open.size() == MAX_OPEN) {
      coordinator.closeFeed(open.pollFirst());
    }
    coordinator.openFeed(feed, queue, partitions);
    open.addLast(feed);
    return feed;
  }

  /** Results as an RDD, lazily. */
  public <T> JavaRDD<Row> results(
      JavaRDD<T> rows, EncoderFactory<T> encoders, StructType resultSchema, FeedPlan plan) {
    return results(
        rows,
        encoders,
        resultSchema,
        plan,
        (reader, result) -> reader.rows(result.schema(), result.columns(), result.rows()));
  }

  /** Results as a Dataset, lazily. */
  public <T> Dataset<Row> results(
      SparkSession spark,
      JavaRDD<T> rows,
      EncoderFactory<T> encoders,
      StructType resultSchema,
      FeedPlan plan) {
    return DataFrames.create(
        spark,
        () ->
            results(
                rows,
                encoders,
                resultSchema,
                plan,
                (reader, result) -> reader.internalRows(result.schema(), result.columns(), result.rows())),
        () -> results(rows, encoders, resultSchema, plan),
        resultSchema);
  }

  private static <T, R> JavaRDD<R> results(
      JavaRDD<T> rows,
      EncoderFactory<T> encoders,
      StructType resultSchema,
      FeedPlan plan,
      RowMaker<R> maker) {
    LongAccumulator returned = rows.context().longAccumulator("Millrace rows returned"); // in Spark's UI
    return rows.mapPartitionsWithIndex(new InferenceTask<>(plan, encoders, resultSchema, maker, returned), true)
        .setName("Millrace inference, queue '" + plan.queue + "'");
  }
}
