package io.millrace.spark.ml;

import io.millrace.spark.MillraceException;
import io.millrace.spark.StatusCode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;

/** Files of models, anywhere where Hadoop has files. Errors are UNAVAILABLE, or as the methods say. */
final class ModelFiles {
  private ModelFiles() {}

  /** What Hadoop does with a path. */
  private interface Work<R> {
    R of(FileSystem files, Path path, Configuration conf) throws IOException;
  }

  private static <R> R on(SparkSession spark, String name, Work<R> work) {
    Configuration conf = spark.sparkContext().hadoopConfiguration();
    Path path = new Path(name);
    try {
      return work.of(path.getFileSystem(conf), path, conf);
    } catch (IOException e) {
      throw unavailable(name, e);
    }
  }

  static MillraceException unavailable(String path, IOException e) {
    return new MillraceException(
        StatusCode.UNAVAILABLE, path + ": " + e.getMessage(), "", "", new ArrayList<>(), e);
  }

  static void makeFolder(SparkSession spark, String folder) {
    on(spark, folder, (files, path, conf) -> files.mkdirs(path));
  }

  /** Removes a folder in which there is nothing; any other stays. */
  static void removeIfEmpty(SparkSession spark, String folder) {
    on(
        spark,
        folder,
        (files, path, conf) -> {
          try {
            return files.delete(path, false);
          } catch (IOException e) {
            return false; // there is something in it
          }
        });
  }

  /** The path of the only file in a folder; FAILED_PRECONDITION if there is none, or several. */
  static String only(SparkSession spark, String folder) {
    List<String> found = on(spark, folder, (files, path, conf) -> visible(files.listStatus(path)));
    if (found.size() != 1) {
      throw new MillraceException(
          StatusCode.FAILED_PRECONDITION,
          (found.isEmpty() ? "no file is in " : "several files are in ") + folder
              + ": a program leaves one, the model");
    }
    return folder + "/" + found.get(0);
  }

  private static List<String> visible(FileStatus[] entries) {
    List<String> names = new ArrayList<>();
    for (FileStatus entry : entries) {
      String name = entry.getPath().getName();
      if (entry.isFile() && !name.startsWith(".") && !name.startsWith("_")) {
        names.add(name);
      }
    }
    return names;
  }

  /** Copies a file into a folder, which is made. */
  static void copy(SparkSession spark, String file, String folder) {
    makeFolder(spark, folder);
    on(
        spark,
        file,
        (files, path, conf) -> {
          Path to = new Path(folder, path.getName());
          return FileUtil.copy(files, path, to.getFileSystem(conf), to, false, conf);
        });
  }
}
