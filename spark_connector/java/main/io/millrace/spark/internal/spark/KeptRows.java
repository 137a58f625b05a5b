package io.millrace.spark.internal.spark;

import java.io.File;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Method;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.python.HybridRowQueue;
import org.apache.spark.util.TaskCompletionListener;

/**
 * The rows of a task that wait for what Python says of them, in their order: in the memory that Spark gives the task,
 * and on disk where that does not suffice.
 *
 * <p>One thread adds rows and another removes them; Spark's Python runner may also do both in one.
 */
final class KeptRows {
  // What add returns, and remove promises, is not the same in all Sparks (checked: 3.5.9, 4.3.0).
  private static final MethodHandle ADD =
      find("add", 1, MethodType.methodType(void.class, HybridRowQueue.class, UnsafeRow.class));
  private static final MethodHandle REMOVE =
      find("remove", 0, MethodType.methodType(UnsafeRow.class, HybridRowQueue.class));

  /**
   * What was begun in this thread last. A task makes the iterator of an RDD, then that of the RDD which stands on it,
   * in one thread: between the two nobody else begins anything there.
   */
  private static final ThreadLocal<KeptRows> BEGUN = new ThreadLocal<>();

  private final HybridRowQueue rows;
  private final ConcurrentLinkedQueue<Integer> batches = new ConcurrentLinkedQueue<>(); // rows of each

  private KeptRows(TaskContext task, int columns) {
    File folder = SparkEnv.get().blockManager().diskBlockManager().localDirs()[0];
    rows = HybridRowQueue.apply(task.taskMemoryManager(), folder, columns);
    // Before anybody else's on the rows' way: listeners are called from the last one on, and Spark's Python runner
    // waits for its thread, which adds rows.
    task.addTaskCompletionListener((TaskCompletionListener) ended -> close());
  }

  private static MethodHandle find(String name, int parameters, MethodType type) {
    for (Method method : HybridRowQueue.class.getMethods()) {
      if (method.getName().equals(name) && method.getParameterCount() == parameters) {
        try {
          return MethodHandles.publicLookup().unreflect(method).asType(type);
        } catch (IllegalAccessException e) {
          return null;
        }
      }
    }
    return null;
  }

  /** Whether this Spark has what keeps rows. */
  static boolean areSupported() {
    return ADD != null && REMOVE != null;
  }

  /** None so far, of so many columns, in the task of this thread. */
  static KeptRows begin(int columns) {
    KeptRows begun = new KeptRows(TaskContext.get(), columns);
    BEGUN.set(begun);
    return begun;
  }

  /** What {@link #begin} has returned in this thread, for whoever stands on that. */
  static KeptRows take() {
    KeptRows begun = BEGUN.get();
    BEGUN.remove();
    return begun;
  }

  /** Adds a copy of a row. */
  void add(UnsafeRow row) {
    try {
      ADD.invokeExact(rows, row);
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  /** The last {@code count} rows go to Python now. */
  void endBatch(int count) {
    batches.add(count);
  }

  /** How many rows went to Python together, of those after the ones before; 0 if there is no such batch. */
  int nextBatch() {
    Integer count = batches.poll();
    return count == null ? 0 : count;
  }

  /** The next row, valid until the one after it. */
  UnsafeRow remove() {
    try {
      return (UnsafeRow) REMOVE.invokeExact(rows);
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  /** Gives the memory back. Idempotent. */
  void close() {
    rows.close();
  }
}
