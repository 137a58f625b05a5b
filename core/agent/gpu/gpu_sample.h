// File: core/agent/gpu/gpu_sample.h
//
// GPUs in the samples of a node.
//
// Defines: WatchesHostGpus(), AddGpus().

#ifndef CORE_AGENT_GPU_GPU_SAMPLE_H_
#define CORE_AGENT_GPU_GPU_SAMPLE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "core/gpu/gpu_snapshot.h"
#include "core/proto/sample.pb.h"
#include "millrace/cluster_spec.h"

namespace millrace {

// Whether the agent of this task is the one of its host that watches the host's GPUs: the first in
// the order of the spec's text, so that all agents agree without asking each other.
[[nodiscard]] bool WatchesHostGpus(const ClusterSpec& spec, absl::string_view job_name,
                                   int task_index);

// Sets the sample's GPUs, or says why they are unknown.
void AddGpus(const GpuSnapshot& snapshot, v1::NodeSample* sample);

}  // namespace millrace

#endif  // CORE_AGENT_GPU_GPU_SAMPLE_H_
