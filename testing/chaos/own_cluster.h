// File: testing/chaos/own_cluster.h
//
// A cluster whose driver is this process, on agents of its own or on agents that listen.
//
// Defines: MakeOwnCluster().

#ifndef TESTING_CHAOS_OWN_CLUSTER_H_
#define TESTING_CHAOS_OWN_CLUSTER_H_

#include <memory>

#include "testing/chaos/driven_cluster.h"
#include "testing/chaos/plan.h"

namespace millrace::chaos {

// `plan` is borrowed; its place is kLocal or kListening.
[[nodiscard]] std::unique_ptr<DrivenCluster> MakeOwnCluster(const Plan& plan,
                                                            const NodeSetting& setting);

}  // namespace millrace::chaos

#endif  // TESTING_CHAOS_OWN_CLUSTER_H_
