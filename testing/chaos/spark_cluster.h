// File: testing/chaos/spark_cluster.h
//
// A cluster on a real Spark of its own, on loopback: its driver is a JVM that does as it is told
// (ChaosApplication.java), and what is known of its nodes is what anybody may see of a cluster.
//
// Defines: MakeSparkCluster().

#ifndef TESTING_CHAOS_SPARK_CLUSTER_H_
#define TESTING_CHAOS_SPARK_CLUSTER_H_

#include <memory>

#include "testing/chaos/driven_cluster.h"
#include "testing/chaos/plan.h"

namespace millrace::chaos {

// `plan` is borrowed; its place is kSpark. Everything lies in `setting.folder`/spark.
//
// Threads: "chaos-spark", which waits for the cluster's file, and that of the ClusterWatch.
[[nodiscard]] std::unique_ptr<DrivenCluster> MakeSparkCluster(const Plan& plan,
                                                              const NodeSetting& setting);

}  // namespace millrace::chaos

#endif  // TESTING_CHAOS_SPARK_CLUSTER_H_
