package io.millrace.spark.internal.spark;

import io.millrace.spark.internal.base.ChangeSignal;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.function.BooleanSupplier;

/**
 * The end of one of Spark's streams, for a thread that waits for something of the cluster as well. Spark only lets
 * threads wait for the stream, so another one does that, and raises the cluster's signal.
 */
public final class StreamEnd {
  /** The stream's awaitTermination, which can be interrupted. */
  public interface Termination {
    void await() throws Exception;
  }

  private final ChangeSignal changes;
  private final Termination stream;

  /** {@code changes} is raised for what the condition of {@link #awaitUnless} looks at. */
  public StreamEnd(ChangeSignal changes, Termination stream) {
    this.changes = changes;
    this.stream = stream;
  }

  /**
   * Waits until the stream has ended, or the condition holds; its thread has ended then, also after an error.
   *
   * @return whether the stream has ended
   * @throws Exception the stream's error, or the interrupt of this thread
   */
  public boolean awaitUnless(BooleanSupplier condition) throws Exception {
    Callable<Void> wait =
        () -> {
          stream.await();
          return null;
        };
    FutureTask<Void> end =
        new FutureTask<Void>(wait) {
          @Override
          protected void done() {
            changes.raise();
          }
        };
    Thread waiter = new Thread(end, "millrace-stream");
    waiter.setDaemon(true);
    waiter.start();
    try {
      for (long seen = changes.count(); !end.isDone(); seen = changes.await(seen)) {
        if (condition.getAsBoolean()) {
          return false;
        }
      }
      end.get();
      return true;
    } catch (ExecutionException e) {
      if (e.getCause() instanceof Error) {
        throw (Error) e.getCause();
      }
      throw (Exception) e.getCause();
    } finally {
      end.cancel(true);
      waiter.join();
    }
  }
}
