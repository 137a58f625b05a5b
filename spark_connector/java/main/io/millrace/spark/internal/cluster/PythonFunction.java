package io.millrace.spark.internal.cluster;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import java.io.File;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkFiles;
import org.apache.spark.api.python.PythonUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The function of Python that a node runs. Spark's tasks bring it to the executors, as they bring the functions of
 * PySpark's own; there it lies in a file as long as the node's agent lives. Immutable.
 */
public final class PythonFunction implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final Logger LOG = LoggerFactory.getLogger(PythonFunction.class);
  private static final String FILE_VARIABLE = "MILLRACE_PYTHON_FUNCTION"; // millrace/_spark_function.py
  private static final String PATH_VARIABLE = "PYTHONPATH";

  private final byte[] pickled;
  private final String path;
  private final ArrayList<String> pyFiles;

  /**
   * A function.
   *
   * @param pickled what Python reads
   * @param path of modules, before the executor's own; "" for none
   * @param pyFiles names of archives with modules that Spark sends to executors (--py-files)
   */
  public PythonFunction(byte[] pickled, String path, List<String> pyFiles) {
    this.pickled = pickled.clone();
    this.path = path;
    this.pyFiles = new ArrayList<>(pyFiles);
  }

  /** A file with it, which only this user may read. */
  Path write() {
    Path folder = folder();
    try {
      Path file = Files.createTempFile(folder, "millrace-function-", ".pickle"); // mode 0600
      Files.write(file, pickled);
      return file;
    } catch (IOException e) {
      throw new MillraceException(
          StatusCode.UNAVAILABLE,
          "the function of " + pickled.length + " bytes cannot be written to " + folder + " of " + Hosts.local() + ": "
              + e + "; free some space there");
    }
  }

  /** That which Spark gives this JVM for its files, and removes. */
  private static Path folder() {
    return Paths.get(SparkFiles.getRootDirectory()).toAbsolutePath().normalize();
  }

  static void delete(Path file) {
    try {
      Files.deleteIfExists(file);
    } catch (IOException e) {
      LOG.warn("{} is left behind: {}", file, e.toString());
    }
  }

  /** What the node finds in its environment: the file, and the modules that PySpark's workers have here. */
  Map<String, String> environment(Path file) {
    Path files = folder();
    List<String> places = new ArrayList<>();
    places.add(path);
    places.add(files.toString());
    for (String name : pyFiles) {
      places.add(files.resolve(name).toString());
    }
    places.add(System.getenv().getOrDefault(PATH_VARIABLE, ""));
    // Not public in Scala (checked: 3.5.9, 4.3.0).
    places.add(PythonUtils.sparkPythonPath());
    places.removeIf(String::isEmpty);
    Map<String, String> environment = new LinkedHashMap<>();
    environment.put(FILE_VARIABLE, file.toString());
    environment.put(PATH_VARIABLE, String.join(File.pathSeparator, places));
    return environment;
  }
}
