package io.millrace.spark.internal.feed;

import static org.junit.Assert.assertThrows;

import io.millrace.spark.MillraceException;
import io.millrace.spark.internal.arrow.BufferPool;
import io.millrace.spark.internal.arrow.EncodedBatch;
import io.millrace.spark.internal.base.BadInputException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.junit.After;
import org.junit.Rule;
import org.junit.rules.Timeout;

/** A hub and a node that does as it is told, right or wrong. */
public abstract class HubFixture {
  static final long MUCH = 1L << 40;

  @Rule public final Timeout timeout = Timeout.seconds(60);

  final BufferPool pool = new BufferPool(64 << 20);
  final List<String> warnings = Collections.synchronizedList(new ArrayList<>());
  final FeedHub hub = FeedHub.start(warnings::add);
  final FakeNode node = new FakeNode();

  @After
  public void close() {
    hub.close();
    node.close();
  }

  static SessionOptions.Builder options(FeedMode mode) {
    return SessionOptions.builder("feed", mode).partition(3);
  }

  final FeedSession open(FeedMode mode) {
    return hub.open(node.target(), options(mode).build());
  }

  final EncodedBatch rows(long first, int rows) {
    return Rows.batch(pool, first, rows);
  }

  static MillraceException failure(Runnable call) {
    return assertThrows(MillraceException.class, call::run);
  }

  /** A session with credit for everything. */
  final FeedSession accepted(FeedMode mode) throws BadInputException {
    FeedSession session = open(mode);
    long id = node.accept();
    node.credit(id, MUCH, 0);
    return session;
  }
}
