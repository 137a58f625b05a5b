package io.millrace.spark.internal.spark;

import io.millrace.spark.internal.base.Text;
import io.millrace.spark.internal.cluster.CoordinatorProcess;
import io.millrace.spark.internal.feed.FeedResult;
import io.millrace.spark.internal.rows.ColumnSlice;
import io.millrace.spark.internal.rows.ColumnSlices;
import io.millrace.spark.internal.rows.DataFrames;
import io.millrace.spark.internal.rows.Pickles;
import io.millrace.spark.internal.rows.ResultReader;
import io.millrace.spark.internal.rows.SparkTypes;
import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.function.Function;
import java.util.function.IntFunction;
import java.util.function.Supplier;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.function.Function2;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.LongAccumulator;

/**
 * The ledger's feeds of inference calls. One is open as long as its results may be asked for, and nobody says
 * when that ends: the oldest of more than {@link #MAX_OPEN} is closed. Thread-safe.
 */
public final class InferenceFeeds {
  private static final int MAX_OPEN = 512;

  private final CoordinatorProcess coordinator;
  private final Runnable check;
  private final ArrayDeque<String> open = new ArrayDeque<>();

  /**
   * None so far.
   *
   * @param check throws if the cluster serves nobody any more; called before Spark runs anything for its rows
   */
  public InferenceFeeds(CoordinatorProcess coordinator, Runnable check) {
    this.coordinator = coordinator;
    this.check = check;
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

  /**
   * Results as an RDD, lazily.
   *
   * @param plans the plan for so many partitions, when they are known: an action asks for results
   */
  public <T> JavaRDD<Row> results(JavaRDD<T> data, StructType resultSchema, IntFunction<FeedPlan> plans) {
    Source<T> source = new Source<>(data, Encoders.<T>ofObjects());
    return deferred(data.context(), Row.class, () -> rows(source, resultSchema, plans));
  }

  /** As {@link #results(JavaRDD, StructType, IntFunction)}, of a DataFrame: no job runs before an action asks. */
  public Dataset<Row> results(Dataset<Row> data, StructType resultSchema, IntFunction<FeedPlan> plans) {
    SparkSession spark = data.sparkSession();
    return DataFrames.create(
        spark,
        () ->
            deferred(
                spark.sparkContext(),
                InternalRow.class,
                () -> internalRows(Source.of(data), resultSchema, plans)),
        () -> deferred(spark.sparkContext(), Row.class, () -> rows(Source.of(data), resultSchema, plans)),
        resultSchema);
  }

  /**
   * Results beside a part of their rows, lazily: {@code pairs} are two structs, of the columns that are fed and of
   * those that stay, which the result has before those of {@code resultSchema}.
   *
   * @param rowsAtOnce of so many the program can make results
   * @param plans asked, when an action asks for results, for what {@link #results(Dataset, StructType, IntFunction)}
   *     is given: so the cluster need not be there before
   * @throws io.millrace.spark.MillraceException INVALID_ARGUMENT if a feed cannot carry a column
   */
  public static Dataset<Row> beside(
      Dataset<Row> pairs, StructType resultSchema, int rowsAtOnce, Supplier<IntFunction<FeedPlan>> plans) {
    StructType fed = (StructType) pairs.schema().fields()[0].dataType();
    StructType kept = (StructType) pairs.schema().fields()[1].dataType();
    SparkTypes.schema(fed);
    StructType schema = kept;
    for (StructField field : resultSchema.fields()) {
      schema = schema.add(field);
    }
    SparkContext spark = pairs.sparkSession().sparkContext();
    int fedColumns = fed.length();
    int keptColumns = kept.length();
    return DataFrames.create(
        pairs.sparkSession(),
        () ->
            new DeferredRdd<InternalRow>(
                    spark,
                    InternalRow.class,
                    () -> {
                      JavaRDD<InternalRow> rows = pairs.queryExecution().toRdd().toJavaRDD();
                      Source<InternalRow> source = new Source<>(rows, Encoders.ofInternalRows(fed));
                      BesideTask.Form<InternalRow> form = BesideTask.ofInternalRows(fedColumns, keptColumns);
                      return results(
                          source,
                          resultSchema,
                          plans.get(),
                          InferenceFeeds::internalRowsOf,
                          task -> new BesideTask<>(task, form, rowsAtOnce));
                    })
                .toJavaRDD(),
        () ->
            new DeferredRdd<Row>(
                    spark,
                    Row.class,
                    () ->
                        results(
                            new Source<>(pairs.toJavaRDD(), Encoders.<Row>ofObjects()),
                            resultSchema,
                            plans.get(),
                            InferenceFeeds::rowsOf,
                            task -> new BesideTask<>(task, BesideTask.ofRows(), rowsAtOnce)))
                .toJavaRDD(),
        schema);
  }

  /** Python objects of Python objects, lazily, all of them pickled each by itself. */
  public JavaRDD<byte[]> pickledResults(JavaRDD<byte[]> data, IntFunction<FeedPlan> plans) {
    Source<byte[]> source = new Source<>(data, Encoders.ofPickles());
    return deferred(
        data.context(),
        byte[].class,
        () ->
            results(
                source,
                Pickles.SCHEMA,
                plans,
                (reader, result) -> Pickles.of(reader, result.schema(), result.columns(), result.rows())));
  }

  /** What Spark has of a DataFrame or an RDD, and what makes batches of it. */
  private static final class Source<T> {
    final JavaRDD<T> elements;
    final EncoderFactory<T> encoders;

    Source(JavaRDD<T> elements, EncoderFactory<T> encoders) {
      this.elements = elements;
      this.encoders = encoders;
    }

    /** Runs the shuffles of an adaptive plan. */
    static Source<?> of(Dataset<Row> data) {
      JavaRDD<ColumnSlice> columns = ColumnSlices.of(data);
      return columns != null
          ? new Source<>(columns, Encoders.ofColumns(data.schema()))
          : new Source<>(data.queryExecution().toRdd().toJavaRDD(), Encoders.ofInternalRows(data.schema()));
    }
  }

  private <R> JavaRDD<R> deferred(SparkContext spark, Class<R> elements, Supplier<RDD<R>> maker) {
    return new DeferredRdd<R>(
            spark,
            elements,
            () -> {
              check.run();
              return maker.get();
            })
        .toJavaRDD();
  }

  private static <T> RDD<Row> rows(Source<T> source, StructType resultSchema, IntFunction<FeedPlan> plans) {
    return results(source, resultSchema, plans, InferenceFeeds::rowsOf);
  }

  private static Iterator<Row> rowsOf(ResultReader reader, FeedResult result) {
    return reader.rows(result.schema(), result.columns(), result.rows());
  }

  private static <T> RDD<InternalRow> internalRows(
      Source<T> source, StructType resultSchema, IntFunction<FeedPlan> plans) {
    return results(source, resultSchema, plans, InferenceFeeds::internalRowsOf);
  }

  private static Iterator<InternalRow> internalRowsOf(ResultReader reader, FeedResult result) {
    return reader.internalRows(result.schema(), result.columns(), result.rows());
  }

  private static <T, R> RDD<R> results(
      Source<T> source, StructType resultSchema, IntFunction<FeedPlan> plans, RowMaker<R> maker) {
    return results(source, resultSchema, plans, maker, task -> task);
  }

  private static <T, R> RDD<R> results(
      Source<T> source,
      StructType resultSchema,
      IntFunction<FeedPlan> plans,
      RowMaker<R> maker,
      Function<InferenceTask<T, R>, Function2<Integer, Iterator<T>, Iterator<R>>> as) {
    JavaRDD<T> elements = source.elements;
    FeedPlan plan = plans.apply(elements.getNumPartitions());
    LongAccumulator returned = elements.context().longAccumulator("Millrace rows returned"); // in Spark's UI
    return elements
        .mapPartitionsWithIndex(
            as.apply(new InferenceTask<>(plan, source.encoders, resultSchema, maker, returned)), true)
        .setName("Millrace inference, queue '" + plan.queue + "'")
        .rdd();
  }
}
