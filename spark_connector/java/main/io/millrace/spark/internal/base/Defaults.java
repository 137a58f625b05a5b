package io.millrace.spark.internal.base;

import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/**
 * Defaults that this side needs itself, said once. They are those of C++ (//testing/parity:option_names_test). Other
 * options that were not set are not sent to the coordinator, which has defaults for them.
 */
public final class Defaults {
  // TrainOptions and InferenceOptions.
  public static final int NUM_EPOCHS = 1;
  public static final Duration FEED_TIMEOUT = Duration.ofSeconds(600);
  public static final String QUEUE = "input";
  public static final boolean END_OF_FEED = false;
  public static final long BATCH_BYTES = 1L << 20;

  // ShutdownOptions.
  public static final Duration GRACE = Durations.FOREVER;
  public static final Duration TIMEOUT = Duration.ofHours(72);

  // FeedOptions and FailureOptions.
  public static final List<String> QUEUES = Collections.unmodifiableList(Arrays.asList("input", "output", "error"));
  public static final long BUDGET_BYTES = 256L << 20;
  public static final boolean SHARED_MEMORY = true;
  public static final Duration STOP_GRACE = Duration.ofSeconds(5);

  private Defaults() {}
}
