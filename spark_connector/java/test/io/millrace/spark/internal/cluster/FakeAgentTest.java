package io.millrace.spark.internal.cluster;

import org.junit.Rule;
import org.junit.rules.TemporaryFolder;
import org.junit.rules.TestName;
import org.junit.rules.Timeout;

/** What tests with {@link FakeAgent} have in common: each has a cluster of its own, named after it. */
public abstract class FakeAgentTest {
  protected static final CoordinatorAddress NOWHERE = new CoordinatorAddress("127.0.0.1:1", "", "", "");

  @Rule public final Timeout timeout = Timeout.seconds(120);
  @Rule public final TemporaryFolder folder = new TemporaryFolder();
  @Rule public final TestName name = new TestName();

  /** An agent that does nothing at its end; {@code cases} as FakeAgent takes them. */
  protected final FakeAgent fake(String cases) throws Exception {
    return new FakeAgent(folder.getRoot().toPath(), cases, "");
  }

  /** This JVM's part of the test's cluster, entered. */
  protected final ExecutorSite site() {
    return ExecutorSite.enter(name.getMethodName(), NOWHERE);
  }
}
