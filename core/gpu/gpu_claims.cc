#include "core/gpu/gpu_claims.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/gpu/gpu_lines.h"
#include "core/net/socket_address.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr char kLockPrefix[] = "millrace-gpu/";
constexpr char kLabelPrefix[] = "millrace-gpu-of/";
constexpr char kTurnName[] = "millrace-gpu-turn";
constexpr size_t kMaxNodeBytes = 24;
constexpr size_t kMaxListed = 16;

// A socket bound to an abstract name. errno says why it is invalid: EADDRINUSE, the name is taken.
UniqueFd BindAbstract(const std::string& name) {
  UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return fd;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof(address.sun_path)) {
    errno = ENAMETOOLONG;
    return UniqueFd();
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    const int error = errno;
    fd.reset();
    errno = error;
  }
  return fd;
}

// For a part of a label: visible ASCII without "/".
std::string LabelPart(absl::string_view text, size_t max_bytes) {
  std::string part(text.substr(0, max_bytes));
  for (char& c : part) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c)) || c == '/') c = '_';
  }
  return part.empty() ? "-" : part;
}

// "millrace-gpu-of/<pid>/<node>/<cluster>/<uuid>", cut to what a name may have.
std::string LabelName(const GpuOwner& owner, const std::string& uuid) {
  const std::string head =
      absl::StrCat(kLabelPrefix, getpid(), "/", LabelPart(owner.node, kMaxNodeBytes), "/");
  constexpr size_t kMaxName = sizeof(sockaddr_un{}.sun_path) - 1;
  const size_t used = head.size() + 1 + uuid.size();
  const size_t left = used + 1 < kMaxName ? kMaxName - used : 1;
  return absl::StrCat(head, LabelPart(owner.cluster_id, left), "/", uuid);
}

// The holder of each claimed GPU, from the labels in this network namespace: UUID to text. Names
// that others chose are not trusted; they only become part of a message.
std::map<std::string, std::string> Holders() {
  std::map<std::string, std::string> holders;
  const absl::StatusOr<std::string> table = ReadFile("/proc/net/unix");
  if (!table.ok()) return holders;
  for (const absl::string_view row : absl::StrSplit(*table, '\n')) {
    const size_t at = row.find(absl::StrCat(" @", kLabelPrefix));
    if (at == absl::string_view::npos) continue;
    const std::vector<std::string> parts =
        absl::StrSplit(row.substr(at + 2 + sizeof(kLabelPrefix) - 1), absl::MaxSplits('/', 3));
    if (parts.size() != 4) continue;
    holders[parts[3]] =
        EscapeControls(absl::StrCat(parts[1], " of cluster ", parts[2], " (pid ", parts[0], ")"));
  }
  return holders;
}

struct Candidate {
  const GpuReading* gpu = nullptr;

  bool mig() const { return !gpu->parent_uuid.empty(); }
  bool busy() const { return gpu->processes.has_value() && !gpu->processes->empty(); }
  std::string Text() const {
    return mig() ? absl::StrCat(gpu->uuid, " of GPU ", gpu->index)
                 : absl::StrCat("GPU ", gpu->index, " (", gpu->uuid, ")");
  }
};

bool InMigMode(const GpuReading& gpu) { return gpu.parent_uuid.empty() && gpu.mig_mode == true; }

// "MIG-GPU-<uuid>/<gpu instance>/<compute instance>", the ids of drivers before 470.
bool IsOldMigId(const GpuReading& gpu, absl::string_view id) {
  return !gpu.parent_uuid.empty() && gpu.gpu_instance.has_value() &&
         gpu.compute_instance.has_value() &&
         id == absl::StrCat("MIG-", gpu.parent_uuid, "/", *gpu.gpu_instance, "/",
                            *gpu.compute_instance);
}

// The GPUs and instances that an id names: an index, a UUID or the beginning of one.
std::vector<const GpuReading*> Named(const GpuSnapshot& snapshot, absl::string_view id) {
  std::vector<const GpuReading*> found;
  int index = -1;
  const bool by_index = absl::SimpleAtoi(id, &index);
  for (const GpuReading& gpu : snapshot.gpus) {
    if (gpu.uuid.empty()) continue;
    if (by_index) {
      if (gpu.parent_uuid.empty() && gpu.index == index) found.push_back(&gpu);
    } else if (gpu.uuid == id || IsOldMigId(gpu, id)) {
      return {&gpu};
    } else if (id.size() > 4 && absl::StartsWith(gpu.uuid, id)) {
      found.push_back(&gpu);
    }
  }
  return found;
}

void AddUnique(const GpuReading* gpu, std::vector<Candidate>* candidates) {
  for (const Candidate& candidate : *candidates) {
    if (candidate.gpu == gpu) return;
  }
  candidates->push_back({gpu});
}

// `gpu`, or its instances if it is in MIG mode: then CUDA cannot use it as a whole.
void AddUsable(const GpuSnapshot& snapshot, const GpuReading* gpu,
               std::vector<Candidate>* candidates) {
  if (!InMigMode(*gpu)) {
    AddUnique(gpu, candidates);
    return;
  }
  for (const GpuReading& instance : snapshot.gpus) {
    if (!instance.uuid.empty() && instance.parent_uuid == gpu->uuid) {
      AddUnique(&instance, candidates);
    }
  }
}

// As CUDA reads CUDA_VISIBLE_DEVICES: what follows an entry that names nothing does not count.
std::vector<Candidate> Candidates(const GpuSnapshot& snapshot,
                                  const std::optional<std::string>& visible) {
  std::vector<Candidate> candidates;
  if (!visible.has_value()) {
    for (const GpuReading& gpu : snapshot.gpus) {
      if (!gpu.uuid.empty()) AddUsable(snapshot, &gpu, &candidates);
    }
    return candidates;
  }
  for (const absl::string_view entry : absl::StrSplit(*visible, ',')) {
    const std::vector<const GpuReading*> named = Named(snapshot, absl::StripAsciiWhitespace(entry));
    if (named.size() != 1) break;
    AddUsable(snapshot, named[0], &candidates);
  }
  return candidates;
}

std::string VisibleText(const std::optional<std::string>& visible) {
  return visible.has_value()
             ? absl::StrCat(" (CUDA_VISIBLE_DEVICES=", Ellipsize(EscapeControls(*visible), 200),
                            ")")
             : "";
}

absl::Status NoGpus(const GpuSnapshot& snapshot, const GpuOwner& owner,
                    const std::optional<std::string>& visible) {
  const std::string who = absl::StrCat(owner.node, " needs a GPU, and host ", LocalHostname());
  if (snapshot.gpus.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        who,
        snapshot.unknown.empty() ? std::string(" has none")
                                 : absl::StrCat(" has none that can be seen: ", snapshot.unknown),
        "; run it on a host with GPUs, or ask for none"));
  }
  if (visible.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(who, " has ", snapshot.gpus.size(),
                                                      ", of which the agent may use none",
                                                      VisibleText(visible)));
  }
  return absl::FailedPreconditionError(
      absl::StrCat(who,
                   " has none that can be used: they have no UUID, or are in MIG mode without "
                   "an instance"));
}

}  // namespace

// Makes one claim.
class GpuClaimer {
 public:
  GpuClaimer(const GpuSnapshot& snapshot, const GpuOwner& owner, const GpuClaimOptions& options)
      : snapshot_(snapshot),
        owner_(owner),
        options_(options),
        candidates_(Candidates(snapshot, options.visible_devices)) {}

  absl::StatusOr<GpuClaim> Claim(const GpuRequest& request) {
    if (request.ids.empty() == (request.count <= 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("a claim of GPUs names a number above 0 or ids; found the number ",
                       request.count, " and ", request.ids.size(), " ids"));
    }
    if (candidates_.empty()) return NoGpus(snapshot_, owner_, options_.visible_devices);
    std::vector<Candidate> wanted;
    if (!request.ids.empty()) {
      MILLRACE_ASSIGN_OR_RETURN(wanted, Resolve(request.ids));
    }
    const UniqueFd turn = BindAbstract(kTurnName);
    if (!turn.valid() && options_.in_turn && errno == EADDRINUSE) {
      return absl::AbortedError("another process is claiming GPUs at this moment; try again");
    }
    return request.ids.empty() ? ByCount(request.count)
                               : Take(wanted, static_cast<int>(wanted.size()), /*by_index=*/false);
  }

 private:
  absl::StatusOr<std::vector<Candidate>> Resolve(const std::vector<std::string>& ids) const {
    std::vector<Candidate> wanted;
    for (const std::string& id : ids) {
      const std::string quoted = absl::StrCat("\"", Ellipsize(EscapeControls(id), 100), "\"");
      const std::vector<const GpuReading*> named = Named(snapshot_, id);
      if (named.size() > 1) {
        return absl::InvalidArgumentError(
            absl::StrCat(owner_.node, " asks for GPU ", quoted, ", which is the beginning of ",
                         named.size(), " ids of host ", LocalHostname(), "; give all of it"));
      }
      if (named.empty()) {
        return absl::NotFoundError(absl::StrCat(owner_.node, " asks for GPU ", quoted,
                                                ", which host ", LocalHostname(),
                                                " does not have; it has ", List(candidates_)));
      }
      if (InMigMode(*named[0])) {
        return absl::FailedPreconditionError(absl::StrCat(
            owner_.node, " asks for GPU ", quoted, " of host ", LocalHostname(),
            ", which is in MIG mode; ask for one of its instances, or for a number of GPUs"));
      }
      const auto usable =
          std::find_if(candidates_.begin(), candidates_.end(),
                       [&](const Candidate& candidate) { return candidate.gpu == named[0]; });
      if (usable == candidates_.end()) {
        return absl::FailedPreconditionError(
            absl::StrCat(owner_.node, " asks for GPU ", quoted, " of host ", LocalHostname(),
                         ", which the agent may not use", VisibleText(options_.visible_devices)));
      }
      for (const Candidate& other : wanted) {
        if (other.gpu == named[0]) {
          return absl::InvalidArgumentError(
              absl::StrCat(owner_.node, " asks for GPU ", quoted, " twice"));
        }
      }
      wanted.push_back(*usable);
    }
    return wanted;
  }

  static std::string List(const std::vector<Candidate>& candidates) {
    std::vector<std::string> texts;
    for (const Candidate& candidate : candidates) {
      if (texts.size() == kMaxListed) {
        texts.push_back("...");
        break;
      }
      texts.push_back(candidate.Text());
    }
    return texts.empty() ? "none" : absl::StrJoin(texts, ", ");
  }

  absl::StatusOr<GpuClaim> ByCount(int count) {
    std::vector<Candidate> whole;
    std::vector<Candidate> instances;
    for (const Candidate& candidate : candidates_) {
      if (!candidate.gpu->error.empty()) continue;
      (candidate.mig() ? instances : whole).push_back(candidate);
    }
    for (std::vector<Candidate>* kind : {&whole, &instances}) {
      // GPUs in use by programs that know nothing of claims come last.
      std::stable_partition(kind->begin(), kind->end(),
                            [](const Candidate& candidate) { return !candidate.busy(); });
    }
    if (static_cast<int>(whole.size()) >= count) {
      absl::StatusOr<GpuClaim> claim = Take(whole, count, /*by_index=*/true);
      if (claim.ok() || static_cast<int>(instances.size()) < count) return claim;
    } else if (static_cast<int>(instances.size()) < count) {
      return TooFew(whole.size() >= instances.size() ? whole : instances, count);
    }
    return Take(instances, count, /*by_index=*/true);
  }

  // The first `count` of `wanted` that can be had, in that order or by index.
  absl::StatusOr<GpuClaim> Take(const std::vector<Candidate>& wanted, int count, bool by_index) {
    std::vector<std::pair<const GpuReading*, GpuClaim::Hold>> got;
    for (const Candidate& candidate : wanted) {
      if (static_cast<int>(got.size()) == count) break;
      const std::string& uuid = candidate.gpu->uuid;
      UniqueFd lock = BindAbstract(absl::StrCat(kLockPrefix, uuid));
      if (!lock.valid()) {
        if (errno == EADDRINUSE) continue;
        return absl::ErrnoToStatus(errno, absl::StrCat("cannot claim ", candidate.Text()));
      }
      got.emplace_back(candidate.gpu,
                       GpuClaim::Hold{std::move(lock), BindAbstract(LabelName(owner_, uuid))});
    }
    if (static_cast<int>(got.size()) < count) {
      got.clear();
      return TooFew(wanted, count);
    }
    if (by_index) {
      std::stable_sort(got.begin(), got.end(), [](const auto& a, const auto& b) {
        return a.first->index < b.first->index;
      });
    }
    GpuClaim claim;
    for (auto& [gpu, hold] : got) {
      claim.ids_.push_back(gpu->uuid);
      claim.holds_.push_back(std::move(hold));
    }
    return claim;
  }

  absl::Status TooFew(const std::vector<Candidate>& wanted, int count) const {
    const std::map<std::string, std::string> holders = Holders();
    std::vector<Candidate> free;
    std::vector<std::string> taken;
    for (const Candidate& candidate : wanted) {
      const std::string& uuid = candidate.gpu->uuid;
      if (BindAbstract(absl::StrCat(kLockPrefix, uuid)).valid()) {
        free.push_back(candidate);
        continue;
      }
      const auto holder = holders.find(uuid);
      if (taken.size() < kMaxListed) {
        taken.push_back(absl::StrCat(
            candidate.Text(), " is held by ",
            holder == holders.end() ? "a process that does not say who it is" : holder->second));
      }
    }
    std::vector<std::string> broken;
    for (const Candidate& candidate : candidates_) {
      if (!candidate.gpu->error.empty() && broken.size() < kMaxListed) {
        broken.push_back(absl::StrCat(candidate.Text(), " has failed: ", candidate.gpu->error));
      }
    }
    std::string text = absl::StrCat(owner_.node, " needs ", count, count == 1 ? " GPU" : " GPUs",
                                    "; of ", wanted.size(), " on host ", LocalHostname(),
                                    VisibleText(options_.visible_devices), " ", free.size(),
                                    free.size() == 1 ? " is free" : " are free");
    if (!free.empty()) absl::StrAppend(&text, ": ", List(free));
    for (const std::string& more : taken) absl::StrAppend(&text, "; ", more);
    for (const std::string& more : broken) absl::StrAppend(&text, "; ", more);
    return absl::ResourceExhaustedError(text);
  }

  const GpuSnapshot& snapshot_;
  const GpuOwner& owner_;
  const GpuClaimOptions& options_;
  const std::vector<Candidate> candidates_;
};

std::vector<int> GpuClaim::fds(const std::string& id) const {
  const auto found = std::find(ids_.begin(), ids_.end(), id);
  if (found == ids_.end()) return {};
  const Hold& hold = holds_[found - ids_.begin()];
  std::vector<int> fds = {hold.lock.get()};
  if (hold.label.valid()) fds.push_back(hold.label.get());
  return fds;
}

void GpuClaim::Add(GpuClaim other) {
  for (size_t i = 0; i < other.ids_.size(); ++i) {
    ids_.push_back(std::move(other.ids_[i]));
    holds_.push_back(std::move(other.holds_[i]));
  }
}

bool GpuClaim::Release(const std::string& id) {
  const auto found = std::find(ids_.begin(), ids_.end(), id);
  if (found == ids_.end()) return false;
  holds_.erase(holds_.begin() + (found - ids_.begin()));
  ids_.erase(found);
  return true;
}

absl::StatusOr<GpuClaim> ClaimGpus(const GpuSnapshot& snapshot, const GpuRequest& request,
                                   const GpuOwner& owner, const GpuClaimOptions& options) {
  return GpuClaimer(snapshot, owner, options).Claim(request);
}

std::optional<GpuUse> CountGpus(const GpuSnapshot& snapshot,
                                const std::optional<std::string>& visible_devices) {
  const absl::StatusOr<std::string> table = ReadFile("/proc/net/unix");
  if (!table.ok()) return std::nullopt;
  const std::string prefix = absl::StrCat(" @", kLockPrefix);
  std::set<absl::string_view> locked;
  for (const absl::string_view row : absl::StrSplit(*table, '\n')) {
    const size_t at = row.find(prefix);
    if (at != absl::string_view::npos) locked.insert(row.substr(at + prefix.size()));
  }
  GpuUse use;
  for (const Candidate& candidate : Candidates(snapshot, visible_devices)) {
    ++(locked.contains(candidate.gpu->uuid) ? use.claimed : use.free);
  }
  return use;
}

}  // namespace millrace
