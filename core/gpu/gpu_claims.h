// File: core/gpu/gpu_claims.h
//
// Whose GPUs are whose on one host: a claim is held by exactly one process and is let go by the
// kernel when that process is gone, whatever ended it.
//
// Defines: GpuRequest, GpuOwner, GpuClaim, ClaimGpus(), GpuUse, CountGpus().
//
//   absl::StatusOr<GpuClaim> claim = ClaimGpus(monitor.snapshot(), visible, {.count = 2},
//                                              {.cluster_id = id, .node = "worker:1"});
//   if (claim.ok()) {
//     environment.push_back("CUDA_VISIBLE_DEVICES=" + absl::StrJoin(claim->ids(), ","));
//   }
//
// How: for each GPU an abstract AF_UNIX socket named after its UUID. Only one process can bind a
// name; nothing lies in any folder, and the kernel unbinds when the last descriptor is closed. Two
// more properties follow, and docs/gpus.md says them to users: claims hold within one network
// namespace, and any local user can make one (docs/decisions.md has the reasons).

#ifndef CORE_GPU_GPU_CLAIMS_H_
#define CORE_GPU_GPU_CLAIMS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/unique_fd.h"
#include "core/gpu/gpu_snapshot.h"

namespace millrace {

// Either `count` or `ids`.
struct GpuRequest {
  // So many: whole GPUs if there are enough of them, otherwise MIG instances. Those that no process
  // uses come first, then by index.
  int count = 0;
  // Exactly these: an index of the host ("3"), a UUID or the beginning of one ("GPU-8a2f"), a MIG
  // instance ("MIG-...").
  std::vector<std::string> ids;
};

// For the error text of others who find their GPU taken.
struct GpuOwner {
  std::string cluster_id;
  std::string node;  // "worker:1"
};

// Holds its GPUs until it is destroyed. Movable. A forked child that does not exec holds them too.
class [[nodiscard]] GpuClaim {
 public:
  // Holds nothing.
  GpuClaim() = default;
  GpuClaim(GpuClaim&&) = default;
  GpuClaim& operator=(GpuClaim&&) = default;

  // UUIDs in the order of the request (of the index, for a count): what CUDA_VISIBLE_DEVICES takes.
  [[nodiscard]] const std::vector<std::string>& ids() const { return ids_; }
  // What holds `id`, close-on-exec: copies in another process keep it claimed as long as that
  // process has them. Empty if it is not held.
  [[nodiscard]] std::vector<int> fds(const std::string& id) const;

  // Takes over what `other` holds.
  void Add(GpuClaim other);
  // Lets go of one. False if it is not held.
  bool Release(const std::string& id);

 private:
  friend class GpuClaimer;

  struct Hold {
    UniqueFd lock;   // bound to the GPU's name
    UniqueFd label;  // bound to a name that says who holds it
  };
  std::vector<std::string> ids_;
  std::vector<Hold> holds_;  // by position in ids_
};

struct GpuClaimOptions {
  // The value of CUDA_VISIBLE_DEVICES that this process inherited: only what it lists can be
  // claimed. Indices in it are the host's (as with CUDA_DEVICE_ORDER=PCI_BUS_ID). Unset: all.
  std::optional<std::string> visible_devices;
  // Wait for one's turn: claims are made one after the other, or two that want five of eight GPUs
  // each could both fail. Without, the claim is made anyway (the one whose turn it is may be
  // stopped).
  bool in_turn = true;
};

// Claims what is asked, all or nothing. Never blocks.
//
// Returns RESOURCE_EXHAUSTED, saying how many there are, which are free and who holds the others,
// if fewer are free than asked for; ABORTED if it is another process's turn (try again in a few
// milliseconds); FAILED_PRECONDITION if this host has no GPU, none may be used (visible_devices),
// the reason why GPUs are unknown, or a GPU in MIG mode is asked for as a whole; NOT_FOUND for an
// id that is not there; INVALID_ARGUMENT for an id that means two GPUs, is asked for twice or is
// none. Thread safety: thread-safe; two threads of one process exclude each other as two processes
// do.
[[nodiscard]] absl::StatusOr<GpuClaim> ClaimGpus(const GpuSnapshot& snapshot,
                                                 const GpuRequest& request, const GpuOwner& owner,
                                                 const GpuClaimOptions& options = {});

// How many GPUs a process may have, as ClaimGpus() sees them; MIG instances count instead of the
// GPU that is in MIG mode.
struct GpuUse {
  int claimed = 0;  // by any process of this network namespace
  int free = 0;
};

// Of those in `visible_devices` (as GpuClaimOptions). Takes nothing, not even for a moment. Unset
// if the system does not say who claims what. Thread safety: thread-safe. Blocking: never (procfs).
[[nodiscard]] std::optional<GpuUse> CountGpus(const GpuSnapshot& snapshot,
                                              const std::optional<std::string>& visible_devices);

}  // namespace millrace

#endif  // CORE_GPU_GPU_CLAIMS_H_
