package io.millrace.spark.internal.base;

/** For what nothing tells: looks again and again whether it has come about. */
public final class Eventually {
  private static final long PATIENCE_SECONDS = 180; // generous: the machine may be busy
  private static final long PAUSE_MILLIS = 10;

  private Eventually() {}

  /** Something that comes true. */
  public interface Condition {
    boolean holds() throws Exception;
  }

  /** Waits until this holds. */
  public static void await(String what, Condition condition) throws Exception {
    long began = System.nanoTime();
    while (!condition.holds()) {
      if (System.nanoTime() - began > PATIENCE_SECONDS * 1_000_000_000L) {
        throw new AssertionError("not within " + PATIENCE_SECONDS + " s: " + what);
      }
      Thread.sleep(PAUSE_MILLIS);
    }
  }
}
