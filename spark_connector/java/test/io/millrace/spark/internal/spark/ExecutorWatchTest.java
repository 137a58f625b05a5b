package io.millrace.spark.internal.spark;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import org.apache.spark.scheduler.SparkListenerExecutorAdded;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.junit.Test;

public final class ExecutorWatchTest {
  private int ends;
  private final ExecutorWatch watch = new ExecutorWatch(() -> {}, () -> ends++);

  @Test
  public void anExecutorThatComesOrGoesIsAChange() {
    watch.onExecutorAdded(new SparkListenerExecutorAdded(0, "1", null));
    assertEquals(1, watch.changes().count());
    assertFalse(watch.isRemoved("1"));
    assertEquals(0, ends);
    watch.onExecutorRemoved(new SparkListenerExecutorRemoved(0, "1", "as the test says"));
    assertEquals(2, watch.changes().count());
    assertTrue(watch.isRemoved("1"));
    assertEquals("whoever waits for what it has fed is told", 1, ends);
  }
}
