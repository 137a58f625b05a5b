package io.millrace.spark.internal.spark;

import static org.junit.Assert.assertEquals;

import io.millrace.spark.internal.cluster.FakeAgent;
import io.millrace.spark.internal.cluster.FakeAgentTest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.TaskContext$;
import org.apache.spark.sql.SparkSession;
import org.junit.Before;
import org.junit.Test;

/** A task that feeds, with agents that do as they are told; run by spark-submit, in this JVM alone. */
public final class TrainTaskTest extends FakeAgentTest {
  private static final Pattern BEGINNING =
      Pattern.compile(
          "\"state\":\"feeding\",.*\"feeder_attempt\":(\\d+),\"first_row\":(\\d+),.*\"rows_before\":(\\d+)");

  @Before
  public void start() {
    SparkSession.builder().getOrCreate(); // this JVM is an executor
  }

  /** Of the task's n-th question, from 0: nobody listens at the port of a node that runs. */
  private static String answer(String n, String state, int attempt, int resumeRow) {
    String endpoint = "{\"tcp\":\"tcp://127.0.0.1:1\",\"key\":\"k\"}";
    String text =
        "{\"state\":\"" + state + "\",\"executor_id\":0,\"node\":\"worker:0\",\"attempt\":" + attempt
            + ",\"resume_row\":" + resumeRow + ",\"partition_state\":\"failed\",\"nonce\":\"n" + attempt
            + "\",\"endpoint\":" + endpoint + "}";
    return n + ") echo \"{\\\"id\\\":$id,\\\"result\\\":" + text.replace("\"", "\\\"") + "}\";; ";
  }

  /** The ledger counts from the row to which the one before came down to where the next one begins. */
  @Test
  public void eachSessionOfATaskIsAnotherOneToTheLedger() throws Exception {
    // Two nodes end before they have answered: what the first was to go on with, the second is to have from row 0 on.
    FakeAgent fake =
        fake(
            "'gateway lookup') n=$(cat \"$0.n\" 2>/dev/null || echo 0); echo $((n + 1)) > \"$0.n\"; case $n in "
                + answer("0", "running", 0, 70)
                + answer("1", "restarting", 1, 0)
                + answer("2", "running", 2, 0)
                + answer("3", "restarting", 3, 0)
                + answer("*", "finished", 4, 0)
                + "esac;;");
    FeedPlan plan =
        FeedPlan.train(name.getMethodName(), NOWHERE, "feed", "input", 60_000, 1, true, null, null, new int[0], null)
            .again("feed.1", Collections.singletonMap(0, "worker:1 ended"), Collections.singletonMap(0, 100L));
    TaskContext$.MODULE$.setTaskContext(TaskContext$.MODULE$.empty());
    FeedOutcome outcome =
        new TrainTask<Integer>(plan, null, null).call(0, Collections.<Integer>emptyIterator()).next();
    assertEquals(FeedOutcome.Kind.TERMINATED, outcome.kind);
    TreeMap<Long, String> sessions = new TreeMap<>();
    for (Matcher told = BEGINNING.matcher(fake.log()); told.find(); ) {
      sessions.put(Long.parseLong(told.group(1)), "from " + told.group(2) + ", before " + told.group(3));
    }
    assertEquals(Arrays.asList("from 70, before 100", "from 0, before 70"), new ArrayList<>(sessions.values()));
  }
}
