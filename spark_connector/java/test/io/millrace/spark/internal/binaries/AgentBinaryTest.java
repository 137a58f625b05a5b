package io.millrace.spark.internal.binaries;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNotEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

/** Against the jar as it is shipped. */
public final class AgentBinaryTest {
  @Rule public final TemporaryFolder folder = new TemporaryFolder();

  private static String run(Path program, String... arguments) throws Exception {
    List<String> command = new ArrayList<>();
    command.add(program.toString());
    command.addAll(java.util.Arrays.asList(arguments));
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    process.getOutputStream().close();
    java.io.ByteArrayOutputStream text = new java.io.ByteArrayOutputStream();
    byte[] buffer = new byte[4096];
    for (int n = process.getInputStream().read(buffer); n >= 0; n = process.getInputStream().read(buffer)) {
      text.write(buffer, 0, n);
    }
    assertEquals(0, process.waitFor());
    return text.toString("UTF-8");
  }

  private static List<String> names(Path folder) throws IOException {
    List<String> names = new ArrayList<>();
    try (Stream<Path> files = Files.list(folder)) {
      files.forEach(file -> names.add(file.getFileName().toString()));
    }
    names.sort(null);
    return names;
  }

  @Test
  public void theProgramsRunWhereTheyAreExtracted() throws Exception {
    Path agent = AgentBinary.extract(folder.newFolder("with space").toPath());
    assertTrue(run(agent, "--version").contains("millrace-agent"));
    assertEquals(java.util.Arrays.asList("millrace-agent", "millrace-gpu"), names(agent.getParent()));
    assertTrue(Files.isExecutable(agent.resolveSibling("millrace-gpu")));
  }

  @Test
  public void manyAtOnceAreNoneTooMany() throws Exception {
    Path root = folder.getRoot().toPath();
    ExecutorService threads = Executors.newFixedThreadPool(4);
    try {
      List<Future<Path>> found = new ArrayList<>();
      for (int i = 0; i < 4; i++) {
        found.add(threads.submit(() -> AgentBinary.extract(root)));
      }
      for (Future<Path> path : found) {
        assertEquals(found.get(0).get(), path.get());
      }
      assertEquals(2, names(found.get(0).get().getParent()).size());
    } finally {
      threads.shutdownNow();
    }
  }

  @Test
  public void aDamagedCopyIsReplacedAndAGoodOneKept() throws Exception {
    Path agent = AgentBinary.extract(folder.getRoot().toPath());
    Object before = Files.readAttributes(agent, "unix:ino").get("ino");
    assertEquals(agent, AgentBinary.extract(folder.getRoot().toPath()));
    assertEquals(before, Files.readAttributes(agent, "unix:ino").get("ino"));
    Files.write(agent, "cut off".getBytes(StandardCharsets.UTF_8));
    assertEquals(agent, AgentBinary.extract(folder.getRoot().toPath()));
    assertNotEquals(7, Files.size(agent));
    assertTrue(run(agent, "--version").contains("millrace-agent"));
  }

  @Test
  public void elsewhereTheErrorSaysWhatToDo() throws Exception {
    AgentBinary.requireSystem("Linux", "amd64");
    MillraceException arm = assertThrows(MillraceException.class, () -> AgentBinary.requireSystem("Linux", "aarch64"));
    assertEquals(StatusCode.UNIMPLEMENTED, arm.code());
    assertTrue(arm.getMessage(), arm.getMessage().contains("Linux on aarch64"));
    assertThrows(MillraceException.class, () -> AgentBinary.requireSystem("Mac OS X", "x86_64"));
    Path file = folder.newFile().toPath();
    MillraceException bad = assertThrows(MillraceException.class, () -> AgentBinary.extract(file));
    assertEquals(StatusCode.UNAVAILABLE, bad.code());
  }
}
