package io.millrace.spark.internal.spark;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import io.millrace.spark.MillraceException;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.StructType;
import org.junit.Test;

/** Run by spark-submit, with each Spark: a function in the place of Python's that answers what it is asked. */
public final class ScoringTest {
  private static final String[] KEPT = {
    "id",
    "IF(id % 3 = 0, NULL, repeat(CAST(id AS string), CAST(id % 50 AS int))) AS text",
    "CAST(id AS decimal(30, 3)) / 7 AS amount",
    "map(id, array('a', NULL), -id - 1, NULL) AS pairs",
    "IF(id % 5 = 0, NULL, named_struct('a', id, 'b', make_interval(0, 1))) AS nested",
  };
  private static final String VECTOR =
      "IF(id % 7 = 3, NULL, transform(sequence(0, CAST(id % 11 AS int)), x -> CAST(x * id AS float))) AS vector";
  private static final String NUMBER = "IF(id % 4 = 1, NULL, id * 0.5) AS number";

  private static SparkSession spark() {
    return SparkSession.builder().getOrCreate();
  }

  private static Dataset<Row> table(long rows, int partitions, String... columns) {
    List<String> all = new ArrayList<>(Arrays.asList(KEPT));
    all.addAll(Arrays.asList(columns));
    Dataset<Row> table = spark().range(0, rows, 1, partitions).selectExpr(all.toArray(new String[0]));
    return table.withColumn("number", table.col("number").cast("double"));
  }

  private static Scoring scoring(Dataset<Row> table, int kept, int batchRows, String... inputs) {
    StructType schema = table.schema();
    StructType answers = new StructType();
    for (String input : inputs) {
      answers = answers.add("of " + input, schema.fields()[schema.fieldIndex(input)].dataType());
    }
    return Scoring.of(table, kept, inputs, answers, batchRows);
  }

  private static Dataset<Row> echo(Dataset<Row> table, int kept, int batchRows, String... inputs) {
    Scoring scoring = scoring(table, kept, batchRows, inputs);
    return scoring.rows(scoring.batches());
  }

  private static List<String> sorted(Dataset<Row> rows) {
    List<String> found = new ArrayList<>();
    for (Row row : rows.collectAsList()) {
      found.add(row.toString());
    }
    Collections.sort(found);
    return found;
  }

  @Test
  public void keepsRowsOfAnyType() {
    Dataset<Row> table = table(1000, 7, VECTOR, NUMBER);
    Dataset<Row> wanted = table.selectExpr("*", "vector AS `of vector`", "number AS `of number`");
    int columns = table.schema().size();
    Dataset<Row> scored = echo(table, columns, 64, "vector", "number");
    assertEquals(wanted.schema().simpleString(), scored.schema().simpleString());
    assertEquals(sorted(wanted), sorted(scored));
    assertEquals(sorted(wanted), sorted(echo(table, columns, 1, "vector", "number")));
    // Inputs that nobody keeps, behind the others.
    assertEquals(sorted(wanted.drop("vector", "number")), sorted(echo(table, KEPT.length, 64, "vector", "number")));
    assertEquals(
        sorted(wanted.select("id", "of number")), sorted(echo(table.select("id", "number"), 1, 64, "number")));
  }

  @Test
  public void rowsMayBeShuffledBeforeAndAfter() {
    Dataset<Row> table = table(3000, 5, VECTOR, NUMBER);
    Dataset<Row> grouped = table.groupBy(table.col("id").mod(100).as("key")).sum("number").withColumnRenamed(
        "sum(number)", "number");
    Dataset<Row> scored = echo(grouped, 2, 16, "number");
    assertEquals(sorted(grouped.selectExpr("*", "number AS `of number`")), sorted(scored));
    assertEquals(100, scored.distinct().count());
    assertEquals(100, scored.join(grouped, "key").count());
  }

  @Test
  public void partitionsMayBeEmptyOrShareATask() {
    Dataset<Row> few = table(40, 4, VECTOR, NUMBER).where("id < 5 OR id > 35").select("id", "number");
    List<String> wanted = sorted(few.selectExpr("*", "number AS `of number`"));
    Dataset<Row> scored = echo(few, 2, 3, "number");
    assertEquals(wanted, sorted(scored));
    assertEquals(wanted, sorted(scored.coalesce(1)));
    assertEquals(2 * wanted.size(), scored.union(scored).coalesce(1).count());
    assertEquals((long) wanted.size() * wanted.size(), scored.crossJoin(scored.toDF("a", "b", "c")).count());
    // One stands on the other.
    Dataset<Row> twice = echo(scored.toDF("id", "number", "same"), 3, 4, "same");
    assertEquals(0, twice.where("NOT (`of same` <=> number)").count());
    assertEquals(wanted.size(), twice.count());
    assertEquals(2, echo(table(40, 4, VECTOR, NUMBER), 1, 3, "id").limit(2).collectAsList().size());
  }

  @Test
  public void doesNotTakeWhatArrowsMessagesDoNotCarry() throws IOException {
    Dataset<Row> table = table(10, 1, VECTOR, NUMBER);
    StructType answers = new StructType().add("answer", "double");
    assertNull(Scoring.of(table, 1, new String[] {"pairs"}, answers, 8));
    assertNull(Scoring.of(table, 1, new String[] {"amount"}, answers, 8));
    assertNull(Scoring.of(table, 1, new String[] {}, answers, 8));
    assertNull(Scoring.of(table, 1, new String[] {"id"}, new StructType().add("answer", "decimal(5,2)"), 8));
    assertNotNull(Scoring.of(table, 1, new String[] {"id"}, answers, 8));
    // The source "rate" would ask the session that another test of this thread has stopped.
    String folder = Files.createTempDirectory("stream").toString();
    Dataset<Row> stream = spark().readStream().schema("time timestamp, value bigint").parquet(folder);
    assertNull(Scoring.of(stream, 2, new String[] {"value"}, answers, 8));
  }

  private static void assertFails(Dataset<Row> rows, String words) {
    Exception error = assertThrows(Exception.class, rows::collectAsList);
    Throwable cause = error;
    while (!(cause instanceof MillraceException) && cause.getCause() != null) {
      cause = cause.getCause();
    }
    assertTrue(error.toString(), cause.getMessage().contains(words));
  }

  @Test
  public void saysWhatIsWrong() {
    Dataset<Row> table = table(20, 1, VECTOR, NUMBER);
    Dataset<Row> texts = table.selectExpr("id", "CAST(IF(id = 13, X'ff', X'41') AS string) AS text");
    assertFails(echo(texts, 1, 8, "text"), "row 13: column \"text\": a string is not valid UTF-8");
    Scoring scoring = scoring(table, 1, 8, "number");
    JavaRDD<byte[]> none = scoring.batches().filter(batch -> false);
    assertFails(scoring.rows(none), "fewer batches");
    JavaRDD<byte[]> shorter = scoring.batches().map(batch -> Arrays.copyOf(batch, batch.length / 2));
    assertFails(scoring.rows(shorter), "an answer of Python's that is none");
    assertFails(scoring.rows(scoring.batches().map(batch -> new byte[3])), "3 bytes for 8 rows");
  }
}
