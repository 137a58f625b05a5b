package io.millrace.spark.ml;

import io.millrace.spark.NodeProgram;
import java.util.Map;
import org.apache.spark.ml.param.DoubleParam;
import org.apache.spark.ml.param.IntParam;
import org.apache.spark.ml.param.Param;
import org.apache.spark.ml.param.Params;
import org.apache.spark.ml.param.StringArrayParam;

/**
 * The parameters of a {@link MillraceModel}, and so of the {@link MillraceEstimator} that makes it; names and meaning
 * are those of Python's millrace.ml. Values are checked by fit and transform, whose errors name the parameter.
 *
 * @param <T> the class itself, which setters return
 */
public interface MillraceParams<T extends MillraceParams<T>> extends Params {
  /** The node program. It has no default. */
  default Param<NodeProgram> program() {
    return new ProgramParam(
        uid(),
        "program",
        "the node program: it learns, and leaves a model, where it finds $MILLRACE_FIT, and scores with one where it "
            + "finds $MILLRACE_MODEL");
  }

  /** Nodes of a cluster, at least 1. Default: 1. */
  default IntParam numExecutors() {
    return new IntParam(uid(), "numExecutors", "nodes of the cluster; of one that scores, all are workers");
  }

  /** Default: 0. */
  default IntParam gpusPerNode() {
    return new IntParam(uid(), "gpusPerNode", "GPUs that each node claims");
  }

  /** Default: 0. */
  default IntParam maxRestarts() {
    return new IntParam(uid(), "maxRestarts", "how often a node that failed is started again");
  }

  /** In seconds, above 0. Default: 600. */
  default DoubleParam feedTimeout() {
    return new DoubleParam(uid(), "feedTimeout", "seconds without progress that end a fit or an action");
  }

  /** At least 1. Default: 1024. */
  default IntParam batchSize() {
    return new IntParam(uid(), "batchSize", "rows that the program uses, or scores, at once");
  }

  /** From names of columns to names of inputs. Default: empty. */
  default Param<Map<String, String>> inputMapping() {
    return new JsonParam<>(
        uid(),
        "inputMapping",
        "the column for each input of the model, {column: input}; several columns for one input become an array of "
            + "doubles. By default the program is fed all columns, under their names");
  }

  /** A list of columns as in CREATE TABLE. It has no default, and a fit does without it. */
  default Param<String> outputs() {
    return new Param<>(uid(), "outputs", "the columns that the program adds, as DDL: scores array<float>");
  }

  /** Default: empty. */
  default StringArrayParam keepCols() {
    return new StringArrayParam(this, "keepCols", "the columns of the table that the result has; by default all");
  }

  /** See {@link #program}. */
  default T setProgram(NodeProgram value) {
    return Checks.set(this, program(), value);
  }

  /** See {@link #numExecutors}. */
  default T setNumExecutors(int value) {
    return Checks.set(this, numExecutors(), value);
  }

  /** See {@link #gpusPerNode}. */
  default T setGpusPerNode(int value) {
    return Checks.set(this, gpusPerNode(), value);
  }

  /** See {@link #maxRestarts}. */
  default T setMaxRestarts(int value) {
    return Checks.set(this, maxRestarts(), value);
  }

  /** See {@link #feedTimeout}. */
  default T setFeedTimeout(double seconds) {
    return Checks.set(this, feedTimeout(), seconds);
  }

  /** See {@link #batchSize}. */
  default T setBatchSize(int value) {
    return Checks.set(this, batchSize(), value);
  }

  /** See {@link #inputMapping}. */
  default T setInputMapping(Map<String, String> value) {
    return Checks.set(this, inputMapping(), value);
  }

  /** See {@link #outputs}. */
  default T setOutputs(String ddl) {
    return Checks.set(this, outputs(), ddl);
  }

  /** See {@link #keepCols}. */
  default T setKeepCols(String... value) {
    return Checks.set(this, keepCols(), value);
  }
}
