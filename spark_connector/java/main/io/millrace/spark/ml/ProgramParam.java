package io.millrace.spark.ml;

import io.millrace.spark.MillraceException;
import io.millrace.spark.NodeProgram;
import io.millrace.spark.StatusCode;
import io.millrace.spark.internal.base.BadInputException;
import io.millrace.spark.internal.base.Json;
import io.millrace.spark.internal.base.JsonObject;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.ml.param.Param;

/** A parameter that is a node program: saved by its path, its arguments and its environment, not its bytes. */
final class ProgramParam extends Param<NodeProgram> {
  private static final long serialVersionUID = 1L;

  ProgramParam(String parent, String name, String doc) {
    super(parent, name, doc);
  }

  @Override
  public String jsonEncode(NodeProgram value) {
    Map<String, Object> members = new LinkedHashMap<>();
    members.put("program", value.program());
    members.put("shipped", value.isShipped());
    members.put("args", value.args());
    members.put("env", value.env());
    return Json.write(members);
  }

  @Override
  public NodeProgram jsonDecode(String json) {
    JsonObject saved = JsonParam.parsed(this, json);
    try {
      String[] args = saved.list("args").toArray(new String[0]);
      String path = saved.string("program");
      NodeProgram program = saved.bool("shipped") ? NodeProgram.file(path, args) : NodeProgram.path(path, args);
      for (Map.Entry<String, Object> variable : saved.object("env").members().entrySet()) {
        program = program.env(variable.getKey(), (String) variable.getValue());
      }
      return program;
    } catch (BadInputException | ArrayStoreException | ClassCastException e) {
      throw new MillraceException(
          StatusCode.INVALID_ARGUMENT, name() + " was saved as " + json + ": " + e.getMessage());
    }
  }
}
