package io.millrace.spark.internal.rows;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.function.Supplier;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;

/** DataFrames of Spark's own form of rows. */
public final class DataFrames {
  private DataFrames() {}

  /** Whether this Spark has a way to make a DataFrame of its own form of rows. */
  public static boolean takesInternalRows(SparkSession session) {
    return internalCreateDataFrame(session.getClass()) != null;
  }

  /**
   * A DataFrame of the rows of {@code internal}; if this Spark has no way to make one, of those of
   * {@code rows}, slower.
   */
  public static Dataset<Row> create(
      SparkSession session,
      Supplier<JavaRDD<InternalRow>> internal,
      Supplier<JavaRDD<Row>> rows,
      StructType schema) {
    MethodHandle method = internalCreateDataFrame(session.getClass());
    if (method == null) {
      return session.createDataFrame(rows.get(), schema);
    }
    try {
      @SuppressWarnings("unchecked")
      Dataset<Row> made = (Dataset<Row>) method.invoke(session, internal.get().rdd(), schema, false);
      return made;
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  // Not public in Scala, so its place is Spark's business: SparkSession in 3.5, classic.SparkSession in 4.x
  // (checked: 3.5.9, 4.3.0).
  static MethodHandle internalCreateDataFrame(Class<?> session) {
    Class<?>[] results = {Dataset.class, null};
    try {
      results[1] = Class.forName("org.apache.spark.sql.classic.Dataset", false, session.getClassLoader());
    } catch (ClassNotFoundException e) {
      results[1] = Dataset.class;
    }
    for (Class<?> result : results) {
      try {
        return MethodHandles.publicLookup()
            .findVirtual(
                session,
                "internalCreateDataFrame",
                MethodType.methodType(result, RDD.class, StructType.class, boolean.class));
      } catch (NoSuchMethodException | IllegalAccessException e) {
        continue; // the next, or none
      }
    }
    return null;
  }
}
