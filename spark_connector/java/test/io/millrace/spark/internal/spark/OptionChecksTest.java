package io.millrace.spark.internal.spark;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import org.apache.spark.SparkConf;
import org.junit.Test;

/** What is refused by Spark's configuration alone, before anything is started. */
public final class OptionChecksTest {
  private static SparkConf conf(String... namesAndValues) {
    SparkConf conf = new SparkConf(false).set("spark.master", "spark://host:7077");
    for (int i = 0; i < namesAndValues.length; i += 2) {
      conf.set(namesAndValues[i], namesAndValues[i + 1]);
    }
    return conf;
  }

  private static void refused(String part, org.junit.function.ThrowingRunnable check) {
    MillraceException e = assertThrows(MillraceException.class, check);
    assertEquals(StatusCode.FAILED_PRECONDITION, e.code());
    assertTrue(e.getMessage(), e.getMessage().contains(part));
  }

  @Test
  public void hostsHaveTheirGpusAndPodsOnlySparks() {
    OptionChecks.checkGpus(conf(), 0);
    OptionChecks.checkGpus(conf(), 2);
    OptionChecks.checkGpus(conf("spark.master", "k8s://https://api:6443"), 0);
    refused(
        "pods have only the GPUs that Spark asks for",
        () -> OptionChecks.checkGpus(conf("spark.master", "k8s://https://api:6443"), 1));
    OptionChecks.checkGpus(
        conf("spark.master", "k8s://https://api:6443", "spark.task.resource.gpu.amount", "1"), 1);
  }

  @Test
  public void aNodeHasNoMoreGpusThanItsTask() {
    OptionChecks.checkGpus(conf("spark.task.resource.gpu.amount", "4"), 2);
    OptionChecks.checkGpus(conf("spark.task.resource.gpu.amount", "0.25"), 1);
    refused(
        "Spark gives each task 1", () -> OptionChecks.checkGpus(conf("spark.task.resource.gpu.amount", "1"), 2));
  }

  @Test
  public void dynamicAllocationKeepsEnoughExecutors() {
    OptionChecks.checkAllocation(conf(), 4, 1);
    SparkConf dynamic =
        conf("spark.dynamicAllocation.enabled", "true", "spark.dynamicAllocation.minExecutors", "2");
    OptionChecks.checkAllocation(dynamic, 2, 1);
    OptionChecks.checkAllocation(dynamic, 4, 2);
    refused("minExecutors to at least 3", () -> OptionChecks.checkAllocation(dynamic, 3, 1));
    dynamic.set("spark.dynamicAllocation.cachedExecutorIdleTimeout", "60s");
    refused("cachedExecutorIdleTimeout=60s", () -> OptionChecks.checkAllocation(dynamic, 2, 1));
    dynamic.set("spark.dynamicAllocation.maxExecutors", "2");
    OptionChecks.checkAllocation(dynamic, 2, 1);
  }
}
