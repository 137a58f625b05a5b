// File: millrace/spark_executor.h
//
// The executors of a Spark application, and which task of a cluster each of them is.
//
// Defines: SparkExecutor, SparkTask.

#ifndef MILLRACE_SPARK_EXECUTOR_H_
#define MILLRACE_SPARK_EXECUTOR_H_

#include <map>
#include <string>
#include <vector>

namespace millrace {

struct SparkExecutor {
  std::string id;    // "0", "1", ...; the driver is none
  std::string host;  // without port or brackets
  bool active = false;
  bool excluded = false;  // by spark.excludeOnFailure (blacklisted, before Spark 3.1)
  int total_cores = 0;
  // Resource to the addresses that the executor was given: {"gpu": {"0", "1"}}.
  std::map<std::string, std::vector<std::string>> resources;
};

struct SparkTask {
  std::string job;
  int index = 0;
  std::string address;
  SparkExecutor executor;
};

}  // namespace millrace

#endif  // MILLRACE_SPARK_EXECUTOR_H_
