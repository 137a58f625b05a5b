package io.millrace.spark.cluster;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.sql.SparkSession;

/** A Spark application that runs checks, of one class after the other; it ends with 1 if one failed, or none ran. */
public final class CheckApplication {
  private static final Map<String, Function<String[], Checks>> CLASSES = new HashMap<>();

  static {
    CLASSES.put("DataChecks", DataChecks::new);
    CLASSES.put("DirectChecks", DirectChecks::new);
    CLASSES.put("EstimatorChecks", EstimatorChecks::new);
    CLASSES.put("FaultChecks", FaultChecks::new);
    CLASSES.put("FeedChecks", FeedChecks::new);
    CLASSES.put("LayoutChecks", LayoutChecks::new);
    CLASSES.put("RecoveryChecks", RecoveryChecks::new);
    CLASSES.put("ResourceChecks", ResourceChecks::new);
    CLASSES.put("ResumeChecks", ResumeChecks::new);
    CLASSES.put("SharingChecks", SharingChecks::new);
    CLASSES.put("SkewChecks", SkewChecks::new);
  }

  private CheckApplication() {}

  /** Arguments: the names of the classes, with commas between, and what {@link Checks} takes. */
  public static void main(String[] args) throws Exception {
    int ran = 0;
    int failed = 0;
    SparkSession spark = null;
    for (String name : args[0].split(",")) {
      Checks checks = CLASSES.get(name).apply(Arrays.copyOfRange(args, 1, args.length));
      spark = checks.spark;
      checks.runAll();
      ran += checks.ran();
      failed += checks.failed();
    }
    spark.stop(); // nothing where a check has stopped it
    System.out.println("CHECKS " + ran + " ran, " + failed + " failed");
    if (failed > 0 || ran == 0) {
      System.exit(1); // if all is well main returns: YARN takes an exit for a failure
    }
  }
}
