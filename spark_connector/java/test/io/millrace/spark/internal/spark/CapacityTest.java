package io.millrace.spark.internal.spark;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import org.apache.spark.SparkConf;
import org.junit.Test;

/** Where nodes fit, by Spark's configuration alone. */
public final class CapacityTest {
  private static Capacity of(String master, String... namesAndValues) {
    SparkConf conf = new SparkConf(false).set("spark.master", master);
    for (int i = 0; i < namesAndValues.length; i += 2) {
      conf.set(namesAndValues[i], namesAndValues[i + 1]);
    }
    return Capacity.of(conf);
  }

  private static void refused(String part, Capacity capacity, int nodes, int asked) {
    MillraceException e = assertThrows(MillraceException.class, () -> capacity.check(nodes, asked));
    assertEquals(StatusCode.FAILED_PRECONDITION, e.code());
    assertTrue(e.getMessage(), e.getMessage().contains(part));
  }

  @Test
  public void localModeIsOneExecutorWithAsManyNodesAsThreads() {
    Capacity four = of("local[4]");
    four.check(4, 0);
    assertEquals(4, four.nodesPerExecutor(4, 0));
    refused("local[4] (1 executor of 4 cores) with nodesPerExecutor 1: set it to 4", four, 4, 1);
    refused("5 nodes need a task slot each as they start; local[4]", four, 5, 0);
    refused("local[5]", four, 5, 5);
    refused("local[2]", of("local"), 2, 0);
    refused("spark.task.cpus=2) has 2: ask for fewer nodes, or local[6]", of("local[4]", "spark.task.cpus", "2"), 3, 0);
    int cores = Runtime.getRuntime().availableProcessors();
    of("local[*, 2]").check(cores, 0);
    refused("local[*", of("local[*, 2]"), cores + 1, 0);
  }

  @Test
  public void executorsAreSharedWhereThereAreFewerThanNodes() {
    Capacity two = of("spark://h:7077", "spark.cores.max", "8", "spark.executor.cores", "4");
    assertEquals(1, two.nodesPerExecutor(2, 0));
    assertEquals(2, two.nodesPerExecutor(3, 0));
    assertEquals(3, two.nodesPerExecutor(3, 3));
    two.check(8, 0);
    refused("set spark.cores.max to at least 9", two, 9, 0);
    refused("nodesPerExecutor 1: set it to 2", two, 3, 1);
    assertEquals(2, of("local-cluster[2,2,1024]").nodesPerExecutor(4, 0));
    refused("local-cluster[2,2,1024]", of("local-cluster[2,2,1024]"), 5, 0);
    assertEquals(2, of("yarn").nodesPerExecutor(4, 0)); // of two executors, which is Spark's default
    refused("spark.executor.instances", of("yarn", "spark.executor.instances", "3"), 4, 0);
    of("k8s://https://h", "spark.executor.instances", "2", "spark.executor.cores", "2").check(4, 0);
  }

  @Test
  public void whatIsNotKnownIsNotRefused() {
    Capacity open = of("spark://h:7077");
    open.check(1000, 1);
    assertEquals(1, open.nodesPerExecutor(1000, 0));
    Capacity dynamic = of("yarn", "spark.dynamicAllocation.enabled", "true");
    dynamic.check(1000, 1);
    refused(
        "yarn (3 executors of 1 core)",
        of("yarn", "spark.dynamicAllocation.enabled", "true", "spark.dynamicAllocation.maxExecutors", "3"),
        4,
        0);
  }
}
