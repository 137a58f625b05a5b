package io.millrace.spark.internal.spark;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertSame;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import io.millrace.spark.internal.base.ChangeSignal;
import io.millrace.spark.internal.cluster.FakeAgent;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.After;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.Timeout;

public final class StreamEndTest {
  @Rule public final Timeout timeout = Timeout.seconds(60);

  private final ChangeSignal changes = new ChangeSignal();
  private final CountDownLatch stopped = new CountDownLatch(1);
  private final CountDownLatch waits = new CountDownLatch(1);
  private final StreamEnd end =
      new StreamEnd(
          changes,
          () -> {
            waits.countDown();
            stopped.await();
          });

  @After
  public void nothingIsLeftBehind() {
    assertEquals(0, FakeAgent.threads("millrace-stream"));
  }

  private void whileItWaits(Runnable then) {
    Thread other =
        new Thread(
            () -> {
              try {
                waits.await();
                then.run();
              } catch (InterruptedException e) {
                throw new AssertionError(e);
              }
            });
    other.start();
  }

  @Test
  public void aStreamThatIsStoppedHasEnded() throws Exception {
    whileItWaits(stopped::countDown);
    assertTrue(end.awaitUnless(() -> false));
  }

  @Test
  public void aChangeThatMakesTheConditionTrueEndsTheWait() throws Exception {
    AtomicBoolean over = new AtomicBoolean();
    whileItWaits(
        () -> {
          changes.raise(); // of something else
          over.set(true);
          changes.raise();
        });
    assertFalse(end.awaitUnless(over::get));
  }

  @Test
  public void aConditionThatHoldsAlreadyIsNotWaitedFor() throws Exception {
    assertFalse(end.awaitUnless(() -> true));
  }

  @Test
  public void theErrorOfTheStreamIsThrown() {
    Exception error = new Exception("as the test says");
    StreamEnd failed =
        new StreamEnd(
            changes,
            () -> {
              throw error;
            });
    assertSame(error, assertThrows(Exception.class, () -> failed.awaitUnless(() -> false)));
  }

  @Test
  public void anInterruptEndsTheWait() {
    Thread caller = Thread.currentThread();
    whileItWaits(caller::interrupt);
    assertThrows(InterruptedException.class, () -> end.awaitUnless(() -> false));
  }
}
