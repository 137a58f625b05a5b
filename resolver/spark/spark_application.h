// File: resolver/spark/spark_application.h
//
// A Spark application and its executors, as Spark's monitoring REST API tells them.
//
// Defines: SparkApplication, SparkApplicationFromJson(), SparkExecutorsFromJson().
//
// https://spark.apache.org/docs/latest/monitoring.html#rest-api; checked with Spark 3.5.

#ifndef RESOLVER_SPARK_SPARK_APPLICATION_H_
#define RESOLVER_SPARK_SPARK_APPLICATION_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/json.h"
#include "millrace/spark_executor.h"

namespace millrace {

struct SparkApplication {
  std::string id;  // "app-20240131093000-0000"
  std::string name;
  std::string attempt;  // where applications have attempts (YARN), the newest; else empty
  bool completed = false;
  std::vector<SparkExecutor>
      executors;  // by number of the id, those without one by text after them
};

// One element of /applications, or /applications/[id]. Executors are not in it.
// Returns DATA_LOSS, naming the field, if `value` is no such thing. Thread safety: pure function.
[[nodiscard]] absl::StatusOr<SparkApplication> SparkApplicationFromJson(const Json& value);

// The answer of /applications/[id]/executors, the driver left out. Errors as above.
[[nodiscard]] absl::StatusOr<std::vector<SparkExecutor>> SparkExecutorsFromJson(const Json& value);

}  // namespace millrace

#endif  // RESOLVER_SPARK_SPARK_APPLICATION_H_
