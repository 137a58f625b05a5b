// File: core/agent/modes/listen_metrics.h
//
// An agent that listens, in numbers for Prometheus: docs/observability.md lists them.
//
// Defines: Refusal, SlotUse, ListenMetrics.
//
//   ListenMetrics metrics({.version = kMillraceVersion, .host = LocalHostname()});
//   metrics.Refused(Refusal::kBusy);
//   std::string text = metrics.Text(MetricsFormat::kOpenMetrics);

#ifndef CORE_AGENT_MODES_LISTEN_METRICS_H_
#define CORE_AGENT_MODES_LISTEN_METRICS_H_

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "core/agent/link/agent_counts.h"
#include "core/base/mutex.h"
#include "core/metrics/metrics_text.h"

namespace millrace {

// Why a driver, or whoever else called, did not get the agent.
enum class Refusal {
  kBusy,      // it serves another cluster
  kEnding,    // it was told to end
  kFenced,    // another driver has taken the cluster over
  kInvalid,   // the message makes no sense
  kReplayed,  // the message was used before
  kToken,     // another secret's token, or none
  kVersion,   // a version too far apart: the last one, by which they are counted
};

enum class SlotUse { kFree, kHeld, kRunning };

// What an agent that listens has done since its start, and what it and the agent that it runs use.
// The text is as long for a thousand adoptions as for none: labels are fixed words.
//
// Thread safety: thread-safe. Blocking: Text() for procfs, some 0.1 ms.
class ListenMetrics {
 public:
  struct Identity {
    std::string version;
    std::string host;
    absl::Time started;
  };

  explicit ListenMetrics(Identity identity) : identity_(std::move(identity)) {}

  void SetSlot(SlotUse use);
  void SetSecretExpiry(absl::Time expiry);
  void Adopted();
  void Refused(Refusal why);

  // The agent of the present adoption: its process, what it has done since its start, its end.
  void AgentStarted(pid_t pid);
  void AgentCounted(const AgentCounts& counts);
  // What it had started and never said the end of has ended with it.
  void AgentEnded();

  [[nodiscard]] std::string Text(MetricsFormat format) const;

 private:
  static constexpr size_t kRefusals = static_cast<size_t>(Refusal::kVersion) + 1;

  const Identity identity_;
  mutable Mutex mu_;
  SlotUse slot_ ABSL_GUARDED_BY(mu_) = SlotUse::kFree;
  absl::Time secret_expiry_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();
  uint64_t adoptions_ ABSL_GUARDED_BY(mu_) = 0;
  std::array<uint64_t, kRefusals> refusals_ ABSL_GUARDED_BY(mu_) = {};
  pid_t agent_ ABSL_GUARDED_BY(mu_) = 0;      // 0: none
  AgentCounts before_ ABSL_GUARDED_BY(mu_);   // of agents that have ended
  uint64_t lost_ ABSL_GUARDED_BY(mu_) = 0;    // nodes of theirs whose end nobody has told
  AgentCounts present_ ABSL_GUARDED_BY(mu_);  // of agent_
};

}  // namespace millrace

#endif  // CORE_AGENT_MODES_LISTEN_METRICS_H_
