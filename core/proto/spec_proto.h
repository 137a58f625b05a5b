// File: core/proto/spec_proto.h
//
// ClusterSpec as it goes over the wire.
//
// Defines: ClusterSpecToProto(), ClusterSpecFromProto(), ClusterSpecToColumns(),
// ClusterSpecFromColumns(), SpecFormat, MakeSpecUpdate(), IsWholeSpec(), ApplySpecUpdate().
//
//   v1::SpecUpdate update = MakeSpecUpdate(spec, epoch);               // coordinator
//   MILLRACE_RETURN_IF_ERROR(ApplySpecUpdate(update, &epoch, &spec));  // agent
//
// Thread safety: pure functions.

#ifndef CORE_PROTO_SPEC_PROTO_H_
#define CORE_PROTO_SPEC_PROTO_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/proto/coordinator.pb.h"
#include "millrace/cluster_spec.h"

namespace millrace {

// The largest uncompressed ClusterDef that is accepted: some 131,072 tasks with long names.
inline constexpr size_t kMaxClusterDefBytes = size_t{16} << 20;

[[nodiscard]] v1::ClusterDef ClusterSpecToProto(const ClusterSpec& spec);

// Returns INVALID_ARGUMENT, naming the job, for a negative index or a job that comes twice.
[[nodiscard]] absl::StatusOr<ClusterSpec> ClusterSpecFromProto(const v1::ClusterDef& proto);

[[nodiscard]] v1::ClusterColumns ClusterSpecToColumns(const ClusterSpec& spec);

// Makes no more of it than what a ClusterDef of kMaxClusterDefBytes holds, however often a task
// names a long host.
//
// Returns INVALID_ARGUMENT, naming the job, for columns of different lengths, a task that does not
// follow on the one before, a host that is not there or a job that comes twice; RESOURCE_EXHAUSTED
// for more tasks or longer addresses than that.
[[nodiscard]] absl::StatusOr<ClusterSpec> ClusterSpecFromColumns(const v1::ClusterColumns& proto);

enum class SpecFormat {
  kClusterDef,  // for everybody
  kColumns,     // a third of the bytes, for agents that said Register.takes_columns
};

// A whole spec, serialised and compressed.
[[nodiscard]] v1::SpecUpdate MakeSpecUpdate(const ClusterSpec& spec, uint64_t epoch,
                                            SpecFormat format = SpecFormat::kClusterDef);

// Whether the update is a whole spec, in whatever format.
[[nodiscard]] inline bool IsWholeSpec(const v1::SpecUpdate& update) {
  return !update.zlib_cluster_def().empty() || !update.zlib_columns().empty();
}

// Brings `spec`, which is that of `*epoch` (0: none), up to the update, and sets `*epoch`. An
// update of an epoch that is there already is OK and changes nothing. Never holds more than
// kMaxClusterDefBytes of uncompressed bytes, whatever the update claims.
//
// On error `spec` and `*epoch` are unchanged. Returns INVALID_ARGUMENT if the update is malformed
// (does not decompress, another size than it says, no ClusterDef and no ClusterColumns, neither
// spec nor changes), RESOURCE_EXHAUSTED over kMaxClusterDefBytes, FAILED_PRECONDITION if changes do
// not follow on `*epoch`.
[[nodiscard]] absl::Status ApplySpecUpdate(const v1::SpecUpdate& update, uint64_t* epoch,
                                           ClusterSpec* spec);

}  // namespace millrace

#endif  // CORE_PROTO_SPEC_PROTO_H_
