package io.millrace.spark.internal.feed;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNotSame;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.channels.Pipe;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.After;
import org.junit.Test;

/** What wakes the hub, and what may wait a moment. */
public final class HubQueueTest {
  private final HubQueue queue;
  private final AtomicInteger done = new AtomicInteger();

  public HubQueueTest() throws IOException {
    queue = new HubQueue();
  }

  @After
  public void free() {
    queue.free();
  }

  private boolean woken() throws IOException {
    return queue.wake().read(ByteBuffer.allocate(16)) > 0;
  }

  /** One turn of the hub. */
  private void turn() {
    queue.rest();
    for (Runnable command = queue.take(); command != null; command = queue.take()) {
      command.run();
    }
  }

  private void postSoon(int times) {
    for (int i = 0; i < times; i++) {
      queue.postSoon(done::incrementAndGet);
    }
  }

  /** The hub has had something that may wait, and now holds what comes. */
  private void startHolding() {
    postSoon(1);
    turn();
  }

  @Test
  public void theFirstThatMayWaitGoesAtOnce() throws IOException {
    assertEquals("an idle hub sleeps", Long.MAX_VALUE, queue.pauseNanos());
    postSoon(1);
    assertTrue(woken());
    turn();
    assertEquals(1, done.get());
  }

  @Test
  public void threeMoreAreHeldAndTheFourthWakes() throws IOException {
    startHolding();
    postSoon(3);
    assertFalse("held", woken());
    assertTrue("not for long", queue.pauseNanos() <= HubQueue.HOLD_NANOS);
    postSoon(1);
    assertTrue(woken());
    turn();
    assertEquals(5, done.get());
    postSoon(3);
    assertFalse("held again", woken());
  }

  @Test
  public void whatMayNotWaitTakesAlongWhatIsHeld() throws IOException {
    startHolding();
    postSoon(1);
    assertFalse("held", woken());
    List<Integer> seen = new ArrayList<>();
    queue.post(() -> seen.add(done.get()));
    assertTrue(woken());
    turn();
    assertEquals("in their order", 2, (int) seen.get(0));
  }

  @Test
  public void whoWaitsForAnEffectSendsWhatIsHeld() throws IOException {
    startHolding();
    queue.flush();
    assertFalse("nothing is held", woken());
    postSoon(1);
    assertFalse("held", woken());
    queue.flush();
    assertTrue(woken());
    turn();
    assertEquals(2, done.get());
    queue.flush();
    assertFalse("it has gone", woken());
  }

  @Test
  public void aHubThatHadNothingForAMomentHoldsNothing() throws Exception {
    startHolding();
    TimeUnit.NANOSECONDS.sleep(HubQueue.HOLD_NANOS + 1);
    assertEquals("the hub looks by itself", 0, queue.pauseNanos());
    turn();
    assertEquals("then it sleeps", Long.MAX_VALUE, queue.pauseNanos());
    postSoon(1);
    assertTrue(woken());
  }

  /** A hub that sleeps as the real one does: whoever posts waits for what is posted, and would wait for ever. */
  @Test(timeout = 60_000)
  public void nothingIsForgotten() throws Exception {
    Selector selector = Selector.open();
    queue.wake().register(selector, SelectionKey.OP_READ);
    Thread hub =
        new Thread(
            () -> {
              try {
                while (!queue.closed()) {
                  long pause = queue.pauseNanos();
                  if (pause == Long.MAX_VALUE) {
                    selector.select();
                  } else {
                    selector.select(TimeUnit.NANOSECONDS.toMillis(pause) + 1);
                  }
                  selector.selectedKeys().clear();
                  turn();
                }
              } catch (IOException e) {
                throw new IllegalStateException(e);
              }
            });
    hub.start();
    List<Thread> tasks = new ArrayList<>();
    Semaphore finished = new Semaphore(0);
    for (int i = 0; i < 3; i++) {
      int seed = i;
      tasks.add(new Thread(() -> postAndWait(seed, finished)));
      tasks.get(i).start();
    }
    finished.acquire(tasks.size());
    queue.close();
    hub.join();
    selector.close();
  }

  private void postAndWait(int seed, Semaphore finished) {
    Semaphore mine = new Semaphore(0);
    for (int round = 0; round < 1000; round++) {
      int count = 1 + (round + seed) % 3;
      for (int i = 0; i < count; i++) {
        queue.postSoon(mine::release);
      }
      if (round % 5 == seed) {
        Thread.yield();
      } else if (round % 5 < 4) {
        queue.flush();
      }
      mine.acquireUninterruptibly(count);
    }
    finished.release();
  }

  @Test
  public void aPipeThatAnInterruptHasClosedIsReplaced() throws Exception {
    Pipe.SourceChannel first = queue.wake();
    Field pipe = HubQueue.class.getDeclaredField("pipe");
    pipe.setAccessible(true);
    ((Pipe) pipe.get(queue)).sink().close(); // as an interrupt in the middle of a write does
    assertTrue(queue.post(() -> {}));
    queue.rest();
    assertNotSame(first, queue.wake());
    assertNotNull(queue.take());
    assertNull(queue.take());
    queue.post(() -> {});
    assertTrue("the new one wakes", woken());
  }
}
