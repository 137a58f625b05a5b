package io.millrace.spark.internal.binaries;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Locale;
import org.apache.spark.SparkFiles;

/**
 * The native programs that the connector's jar holds: millrace-agent, and millrace-gpu beside it. They are
 * for Linux on x86-64.
 *
 * <p>Thread-safe. Each JVM has its own copy, in the folder that Spark gives it and removes.
 */
public final class AgentBinary {
  private static final String AGENT = "millrace-agent";
  private static final String[] PROGRAMS = {AGENT, "millrace-gpu"};
  private static final String RESOURCES = "linux-x86_64/";

  // One for the life of the JVM: the programs do not change, and an executor outlives many clusters. Only a
  // folder that is gone (a SparkContext ended, the next one has another) makes for another.
  private static Path agent;

  private AgentBinary() {}

  /**
   * millrace-agent, ready to be run; extracted at the first call.
   *
   * @throws MillraceException UNIMPLEMENTED on another system than Linux on x86-64, NOT_FOUND if the jar was
   *     built without the programs, UNAVAILABLE if they cannot be written or not be run where they are
   */
  public static synchronized Path path() {
    if (agent == null || !Files.isExecutable(agent)) {
      requireSystem(System.getProperty("os.name"), System.getProperty("os.arch"));
      agent = extract(Paths.get(SparkFiles.getRootDirectory()).toAbsolutePath().normalize());
    }
    return agent;
  }

  static void requireSystem(String name, String architecture) {
    String arch = architecture.toLowerCase(Locale.ROOT);
    if (!name.equals("Linux") || !arch.equals("amd64") && !arch.equals("x86_64")) {
      throw new MillraceException(
          StatusCode.UNIMPLEMENTED,
          "the Millrace jar holds programs for Linux on x86-64, and this JVM runs on " + name + " on " + architecture
              + "; build millrace-agent there and name it in MILLRACE_AGENT on every executor");
    }
  }

  /** Extracts the programs into a folder of their own below {@code root}; what is there already is kept. */
  static Path extract(Path root) {
    Path folder = root.resolve("millrace-" + checksum(AGENT).substring(0, 16));
    try {
      Files.createDirectories(folder);
      for (String program : PROGRAMS) {
        Path file = folder.resolve(program);
        String wanted = checksum(program);
        if (!Files.isRegularFile(file) || !sha256(Files.newInputStream(file)).equals(wanted)) {
          write(program, file, wanted);
        }
      }
    } catch (IOException e) {
      throw new MillraceException(
          StatusCode.UNAVAILABLE,
          "Millrace's programs cannot be extracted into " + folder + ": " + e
              + "; free some space there, or name a millrace-agent in MILLRACE_AGENT");
    }
    Path file = folder.resolve(AGENT);
    if (!Files.isExecutable(file)) {
      throw new MillraceException(
          StatusCode.UNAVAILABLE,
          file + " may not be run: its file system is probably mounted noexec; name a millrace-agent elsewhere in "
              + "MILLRACE_AGENT");
    }
    return file;
  }

  /** Complete or not at all, whoever else does the same, and whenever this JVM is killed. */
  private static void write(String program, Path file, String wanted) throws IOException {
    Path part =
        Files.createTempFile(
            file.getParent(),
            "." + program,
            ".part",
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
    try {
      try (InputStream in = resource(program); OutputStream out = Files.newOutputStream(part)) {
        copy(in, out);
      }
      String found = sha256(Files.newInputStream(part));
      if (!found.equals(wanted)) {
        throw new IOException(program + " has sha256 " + found + ", expected " + wanted);
      }
      Files.setPosixFilePermissions(part, PosixFilePermissions.fromString("rwxr-xr-x"));
      Files.move(part, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    } finally {
      Files.deleteIfExists(part);
    }
  }

  private static String checksum(String program) {
    try (InputStream in = resource(program + ".sha256")) {
      ByteArrayOutputStream text = new ByteArrayOutputStream();
      copy(in, text);
      return new String(text.toByteArray(), StandardCharsets.US_ASCII).trim();
    } catch (IOException e) {
      throw new MillraceException(StatusCode.UNAVAILABLE, "the Millrace jar cannot be read: " + e);
    }
  }

  private static InputStream resource(String name) {
    InputStream in = AgentBinary.class.getResourceAsStream(RESOURCES + name);
    if (in == null) {
      throw new MillraceException(
          StatusCode.NOT_FOUND,
          "the Millrace jar holds no " + name + "; take //spark_connector:millrace-spark.jar, or name a "
              + "millrace-agent in MILLRACE_AGENT");
    }
    return in;
  }

  private static void copy(InputStream in, OutputStream out) throws IOException {
    byte[] buffer = new byte[1 << 16];
    for (int count = in.read(buffer); count >= 0; count = in.read(buffer)) {
      out.write(buffer, 0, count);
    }
  }

  private static String sha256(InputStream content) throws IOException {
    try (InputStream in = content) {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      byte[] buffer = new byte[1 << 16];
      for (int count = in.read(buffer); count >= 0; count = in.read(buffer)) {
        digest.update(buffer, 0, count);
      }
      StringBuilder hex = new StringBuilder();
      for (byte b : digest.digest()) {
        hex.append(Character.forDigit(b >> 4 & 15, 16)).append(Character.forDigit(b & 15, 16));
      }
      return hex.toString();
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
  }
}
