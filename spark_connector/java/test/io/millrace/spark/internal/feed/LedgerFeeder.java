package io.millrace.spark.internal.feed;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.arrow.ArrowField;
import io.millrace.spark.internal.arrow.ArrowSchema;
import io.millrace.spark.internal.arrow.ArrowType;
import io.millrace.spark.internal.arrow.BatchBuilder;
import io.millrace.spark.internal.arrow.BodyMemory;
import io.millrace.spark.internal.arrow.BufferPool;
import io.millrace.spark.internal.arrow.EncodedBatch;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.Json;
import io.millrace.spark.internal.base.JsonObject;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * A feeder process for the tests of the ledger: with the arguments and events of
 * //testing/reference_peer:feeder, as far as those tests use them, and rows of the columns
 * "id:int64,name:utf8". Sessions that end early are followed by others, as section 6 of
 * docs/feed_protocol.md says. Batches that are large enough go through shared memory; the last event, "stats", says how
 * many did.
 */
public final class LedgerFeeder {
  private static final ArrowSchema SCHEMA =
      new ArrowSchema(
          new ArrowField("id", ArrowType.of(ArrowType.Id.INT64), true),
          new ArrowField("name", ArrowType.of(ArrowType.Id.UTF8), true));
  private static final long LOOKUP_MILLIS = 20;

  private final Path lookupFile;
  private final String feedId;
  private final FeedMode mode;
  private final long rows;
  private final int batchRows;
  private final long feedTimeoutMillis;
  private final BufferPool pool = new BufferPool(16 << 20);
  private final FeedHub hub = FeedHub.start(warning -> System.err.println(warning));

  private LedgerFeeder(Map<String, String> arguments) {
    lookupFile = Paths.get(arguments.get("--lookup-file"));
    feedId = arguments.get("--feed-id");
    mode = arguments.get("--mode").equals("train") ? FeedMode.TRAIN : FeedMode.INFERENCE;
    rows = Long.parseLong(arguments.get("--rows"));
    batchRows = Integer.parseInt(arguments.get("--batch-rows"));
    feedTimeoutMillis = TimeUnit.SECONDS.toMillis(Long.parseLong(arguments.get("--feed-timeout")));
  }

  public static void main(String[] words) throws InterruptedException {
    Map<String, String> arguments = new HashMap<>();
    for (int i = 0; i + 1 < words.length; i += 2) {
      arguments.put(words[i], words[i + 1]);
    }
    LedgerFeeder feeder = new LedgerFeeder(arguments);
    List<Partition> partitions = new ArrayList<>();
    List<Thread> threads = new ArrayList<>();
    for (int p = 0; p < Integer.parseInt(arguments.get("--partitions")); p++) {
      Partition partition = feeder.new Partition(p);
      partitions.add(partition);
      Thread thread = new Thread(partition::run, "feed-" + p);
      thread.setDaemon(true);
      thread.start();
      threads.add(thread);
    }
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(Long.parseLong(arguments.get("--deadline")));
    for (Thread thread : threads) {
      thread.join(Math.max(1, TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime())));
    }
    boolean good = true;
    for (Partition partition : partitions) {
      good &= partition.good;
    }
    FeedStats stats = feeder.hub.stats();
    tell("stats", "batches_placed", stats.batchesPlaced, "results_placed", stats.resultsPlaced);
    feeder.hub.close();
    System.exit(good ? 0 : 1);
  }

  private static void tell(String event, Object... members) {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("event", event);
    for (int i = 0; i < members.length; i += 2) {
      line.put((String) members[i], members[i + 1]);
    }
    synchronized (System.out) {
      System.out.println(Json.write(line));
      System.out.flush();
    }
  }

  /** What the file says that stands for the coordinator's lookup; null while there is no node. */
  private FeedTarget lookup() {
    try {
      JsonObject node = Json.parseObject(new String(Files.readAllBytes(lookupFile), StandardCharsets.UTF_8), 8);
      return node.string("state").equals("running")
          ? new FeedTarget("worker:0", node.string("nonce"), node.string("endpoint"), node.string("key"))
          : null;
    } catch (IOException | BadInputException e) {
      return null; // it is being written
    }
  }

  /** One partition, over as many sessions as it takes. */
  private final class Partition {
    private final int number;
    private volatile boolean good;
    private long ackedRows;
    private long rowsRefed;
    private long returnedRows;
    private FeedTarget node;
    private SessionState last;
    private long progressAt = System.nanoTime();

    Partition(int number) {
      this.number = number;
    }

    void run() {
      try {
        while (true) {
          FeedTarget target = nextTarget();
          SessionState ended = feed(target);
          if (ended.end == SessionEnd.DONE) {
            good = true;
            break;
          }
          if (ended.ackedRows > ackedRows || ended.returnedRows > 0) {
            progressAt = System.nanoTime();
          }
          ackedRows = ended.ackedRows;
          last = ended;
          node = target;
          if (!mayTryAgain(ended, target)) {
            throw ended.error;
          }
          if (System.nanoTime() - progressAt > TimeUnit.MILLISECONDS.toNanos(feedTimeoutMillis)) {
            throw ended.error;
          }
          Thread.sleep(LOOKUP_MILLIS);
        }
        end("done", "OK", "");
      } catch (MillraceException e) {
        end("error", e.code().name(), e.getMessage());
      } catch (InterruptedException e) {
        end("aborted", "CANCELLED", "interrupted");
      }
    }

    private void end(String kind, String code, String message) {
      tell("end", "partition", number, "kind", kind, "code", code, "message", message, "refed", rowsRefed);
    }

    private FeedTarget nextTarget() throws InterruptedException {
      while (true) {
        FeedTarget target = lookup();
        if (target != null) {
          return target;
        }
        if (System.nanoTime() - progressAt > TimeUnit.MILLISECONDS.toNanos(feedTimeoutMillis)) {
          throw new MillraceException(StatusCode.DEADLINE_EXCEEDED, "worker:0 does not come back");
        }
        Thread.sleep(LOOKUP_MILLIS);
      }
    }

    private boolean mayTryAgain(SessionState ended, FeedTarget target) {
      switch (ended.end) {
        case BROKEN:
        case UNANSWERED:
          return true;
        case ERROR:
        case REFUSED:
          // Another attempt at an old address knows neither the nonce nor the key.
          FeedTarget now = lookup();
          return !ended.accepted && (now == null || !now.nonce().equals(target.nonce()));
        default:
          return false;
      }
    }

    /** One session, from the row that section 6 says. */
    private SessionState feed(FeedTarget target) {
      boolean same = node != null && node.nonce().equals(target.nonce());
      long firstRow = mode == FeedMode.TRAIN && same ? ackedRows : 0;
      if (last != null) {
        rowsRefed += Math.max(0, last.rowsInDoubt() - firstRow);
      }
      returnedRows = 0;
      FeedSession session =
          hub.open(
              target,
              SessionOptions.builder(feedId, mode)
                  .partition(number)
                  .firstRow(firstRow)
                  .feedTimeoutMillis(feedTimeoutMillis)
                  .build());
      try {
        if (mode == FeedMode.TRAIN) {
          train(session, firstRow);
        } else {
          infer(session);
        }
      } catch (MillraceException e) {
        if (session.state().end == SessionEnd.OPEN) {
          throw e; // a wait that took too long
        }
      }
      return session.state();
    }

    private void train(FeedSession session, long firstRow) {
      BatchBuilder builder = new BatchBuilder(SCHEMA, pool);
      for (long row = firstRow; row < rows; ) {
        int count = (int) Math.min(batchRows, rows - row);
        session.send(SCHEMA, encode(session, builder, row, count));
        row += count;
        tell("sent", "partition", number, "row", row);
      }
      session.finish(rows);
      session.awaitDone();
    }

    private void infer(FeedSession session) {
      long row = 0;
      boolean finished = false;
      BatchBuilder builder = new BatchBuilder(SCHEMA, pool);
      EncodedBatch next = null;
      while (true) {
        if (next == null && row < rows) {
          next = encode(session, builder, row, (int) Math.min(batchRows, rows - row));
        } else if (next == null && !finished) {
          session.finish(rows);
          finished = true;
        }
        switch (session.awaitReady(next)) {
          case RESULT:
            check(session.nextResult());
            break;
          case SEND:
            int count = next.rows();
            if (session.trySend(SCHEMA, next)) {
              next = null;
              row += count;
              tell("sent", "partition", number, "row", row);
            }
            break;
          default:
            if (returnedRows != rows) {
              tell("wrong_result", "partition", number, "first_row", returnedRows, "rows", 0);
            }
            return;
        }
      }
    }

    private void check(FeedResult result) {
      boolean right = result.firstRow() == returnedRows;
      for (int i = 0; i < result.rows(); i++) {
        long row = returnedRows + i;
        right &= result.columns().get(0).getLong(i) == id(row);
        right &= result.columns().get(1).getString(i).equals("p" + number + "r" + row);
      }
      if (!right) {
        tell("wrong_result", "partition", number, "first_row", result.firstRow(), "rows", result.rows());
      }
      returnedRows += result.rows();
    }

    private long id(long row) {
      return number * 1_000_000L + row;
    }

    /** Encodes rows where the node reads them, if there is room for as many bytes as the batch before had. */
    private EncodedBatch encode(FeedSession session, BatchBuilder builder, long firstRow, int count) {
      session.beginWriting();
      try {
        BodyMemory room = builder.wantedBytes() == 0 ? null : session.lend(builder.wantedBytes());
        if (room != null) {
          builder.begin(room);
        }
        for (long row = firstRow; row < firstRow + count; row++) {
          builder.column(0).putLong(id(row));
          builder.column(1).putBytes(("p" + number + "r" + row).getBytes(StandardCharsets.UTF_8));
          builder.endRow();
        }
        return builder.finish();
      } finally {
        session.endWriting();
      }
    }
  }
}
