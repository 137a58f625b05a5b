package millrace;

import java.io.BufferedWriter;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.Request;
import org.junit.runner.manipulation.Filter;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/**
 * Runs the test classes named on the command line and writes what Bazel expects of a test: a line for each
 * case, the XML file named by XML_OUTPUT_FILE, exit code 1 if a case failed. {@code --test_filter} is a
 * regular expression that is looked for in {@code Class.method}.
 */
public final class JUnitRunner {
  private JUnitRunner() {}

  private static final class Case {
    final Description description;
    final long begin = System.nanoTime();
    double seconds;
    Throwable failure;
    String skipped;

    Case(Description description) {
      this.description = description;
    }
  }

  private static final class Listener extends RunListener {
    final Map<Description, Case> cases = new LinkedHashMap<>();

    private Case of(Description description) {
      return cases.computeIfAbsent(description, Case::new);
    }

    @Override
    public void testStarted(Description description) {
      System.out.println("[ RUN  ] " + name(description));
      of(description);
    }

    @Override
    public void testFinished(Description description) {
      Case done = of(description);
      done.seconds = (System.nanoTime() - done.begin) / 1e9;
      String word = done.failure != null ? "[FAILED] " : done.skipped != null ? "[ SKIP ] " : "[   OK ] ";
      System.out.printf("%s%s (%.3f s)%n", word, name(description), done.seconds);
    }

    @Override
    public void testFailure(Failure failure) {
      of(failure.getDescription()).failure = failure.getException();
      System.out.println(failure.getTrimmedTrace());
    }

    @Override
    public void testAssumptionFailure(Failure failure) {
      of(failure.getDescription()).skipped = String.valueOf(failure.getMessage());
      System.out.println("skipped: " + failure.getMessage());
    }

    @Override
    public void testIgnored(Description description) {
      of(description).skipped = "ignored";
    }
  }

  private static String name(Description description) {
    return description.getTestClass() == null
        ? description.getDisplayName()
        : description.getTestClass().getSimpleName() + "." + description.getMethodName();
  }

  private static String escaped(String text) {
    StringBuilder out = new StringBuilder();
    for (char c : text.toCharArray()) {
      if (c == '<' || c == '>' || c == '&' || c == '"') {
        out.append("&#").append((int) c).append(';');
      } else {
        // Other control characters cannot stand in XML 1.0 at all.
        out.append(c >= ' ' && c < 0xD800 || c == '\n' || c == '\t' ? c : '?');
      }
    }
    return out.toString();
  }

  private static void writeXml(String path, Iterable<Case> cases) throws IOException {
    try (BufferedWriter out = Files.newBufferedWriter(Paths.get(path), StandardCharsets.UTF_8)) {
      out.write("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites><testsuite name=\"java\">\n");
      for (Case one : cases) {
        out.write(
            String.format(
                "<testcase classname=\"%s\" name=\"%s\" time=\"%.3f\">",
                escaped(one.description.getClassName()),
                escaped(String.valueOf(one.description.getMethodName())),
                one.seconds));
        if (one.failure != null) {
          StringWriter trace = new StringWriter();
          one.failure.printStackTrace(new PrintWriter(trace));
          out.write("<failure message=\"" + escaped(String.valueOf(one.failure.getMessage())) + "\">");
          out.write(escaped(trace.toString()) + "</failure>");
        } else if (one.skipped != null) {
          out.write("<skipped message=\"" + escaped(one.skipped) + "\"/>");
        }
        out.write("</testcase>\n");
      }
      out.write("</testsuite></testsuites>\n");
    }
  }

  private static Filter matching(Pattern pattern) {
    return new Filter() {
      @Override
      public boolean shouldRun(Description description) {
        if (description.isTest()) {
          return pattern.matcher(name(description)).find();
        }
        return description.getChildren().stream().anyMatch(this::shouldRun);
      }

      @Override
      public String describe() {
        return "cases that match " + pattern;
      }
    };
  }

  /** Runs the classes named by {@code args}; exits with 0 exactly if every case passed or was skipped. */
  public static void main(String[] args) throws Exception {
    List<Class<?>> classes = new ArrayList<>();
    for (String arg : args) {
      classes.add(Class.forName(arg));
    }
    Listener listener = new Listener();
    JUnitCore core = new JUnitCore();
    core.addListener(listener);
    Request request = Request.classes(classes.toArray(new Class<?>[0]));
    String filter = System.getenv("TESTBRIDGE_TEST_ONLY");
    if (filter != null) {
      request = request.filterWith(matching(Pattern.compile(filter)));
    }
    boolean passed = core.run(request).wasSuccessful();
    String xml = System.getenv("XML_OUTPUT_FILE");
    if (xml != null) {
      writeXml(xml, listener.cases.values());
    }
    System.out.flush();
    // Threads that a test left behind do not keep the process alive.
    System.exit(passed && !listener.cases.isEmpty() ? 0 : 1);
  }
}
