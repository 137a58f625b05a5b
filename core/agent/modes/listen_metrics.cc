#include "core/agent/modes/listen_metrics.h"

#include <unistd.h>

#include <optional>
#include <utility>

#include "absl/strings/string_view.h"
#include "core/net/grpc_log.h"
#include "core/process/process_usage.h"

namespace millrace {
namespace {

struct RefusalName {
  Refusal refusal;
  absl::string_view name;
};

constexpr RefusalName kRefusalNames[] = {
    {Refusal::kBusy, "busy"},       {Refusal::kEnding, "ending"},     {Refusal::kFenced, "fenced"},
    {Refusal::kInvalid, "invalid"}, {Refusal::kReplayed, "replayed"}, {Refusal::kToken, "token"},
    {Refusal::kVersion, "version"},
};

struct SlotName {
  SlotUse use;
  absl::string_view name;
};

constexpr SlotName kSlotNames[] = {
    {SlotUse::kFree, "free"}, {SlotUse::kHeld, "held"}, {SlotUse::kRunning, "running"}};

uint64_t Ended(const AgentCounts& counts) {
  return counts.finished + counts.failed + counts.killed + counts.stopped;
}

AgentCounts Sum(const AgentCounts& a, const AgentCounts& b) {
  return {.started = a.started + b.started,
          .restarted = a.restarted + b.restarted,
          .finished = a.finished + b.finished,
          .failed = a.failed + b.failed,
          .killed = a.killed + b.killed,
          .stopped = a.stopped + b.stopped,
          .unstarted = a.unstarted + b.unstarted,
          .log_written_bytes = a.log_written_bytes + b.log_written_bytes,
          .log_lost_bytes = a.log_lost_bytes + b.log_lost_bytes,
          .relayed_lines = a.relayed_lines + b.relayed_lines,
          .dropped_lines = a.dropped_lines + b.dropped_lines};
}

// One number without labels of its own.
void AddOne(const MetricFamily& family, double value, MetricsText* text) {
  text->Begin(family);
  text->Add({}, value);
}

void AddNodes(const AgentCounts& counts, uint64_t lost, MetricsText* text) {
  AddOne({.name = "millrace_agent_node_starts",
          .type = MetricType::kCounter,
          .help = "Processes of nodes that were started."},
         static_cast<double>(counts.started), text);
  AddOne({.name = "millrace_agent_node_restarts",
          .type = MetricType::kCounter,
          .help = "Of the starts: another attempt of a node."},
         static_cast<double>(counts.restarted), text);
  text->Begin({.name = "millrace_agent_node_ends",
               .type = MetricType::kCounter,
               .help = "Processes of nodes that have ended, by how."});
  const std::pair<absl::string_view, uint64_t> ends[] = {
      {"finished", counts.finished},
      {"failed", counts.failed},
      {"killed", counts.killed},
      {"stopped", counts.stopped},
      {"lost", lost},
      {"unstarted", counts.unstarted},
  };
  for (const auto& [outcome, count] : ends) {
    text->Add({{"outcome", outcome}}, static_cast<double>(count));
  }
}

void AddOutput(const AgentCounts& counts, MetricsText* text) {
  AddOne({.name = "millrace_agent_log_written_bytes",
          .type = MetricType::kCounter,
          .help = "Output of nodes that log files have.",
          .unit = "bytes"},
         static_cast<double>(counts.log_written_bytes), text);
  AddOne({.name = "millrace_agent_log_lost_bytes",
          .type = MetricType::kCounter,
          .help = "Output of nodes that log files miss: the disk was slow, full or not writable.",
          .unit = "bytes"},
         static_cast<double>(counts.log_lost_bytes), text);
  AddOne({.name = "millrace_agent_relayed_lines",
          .type = MetricType::kCounter,
          .help = "Lines of output that drivers were sent."},
         static_cast<double>(counts.relayed_lines), text);
  AddOne({.name = "millrace_agent_dropped_lines",
          .type = MetricType::kCounter,
          .help = "Lines of output that drivers were not sent, being over the rate."},
         static_cast<double>(counts.dropped_lines), text);
}

void AddGpus(const std::optional<GpuCounts>& gpus, MetricsText* text) {
  if (!gpus.has_value()) return;
  text->Begin({.name = "millrace_agent_gpus",
               .help = "GPUs that the agent may use: claimed for its node, by others, free."});
  text->Add({{"state", "own"}}, static_cast<double>(gpus->own));
  text->Add({{"state", "others"}}, static_cast<double>(gpus->others));
  text->Add({{"state", "free"}}, static_cast<double>(gpus->free));
}

struct NamedProcess {
  absl::string_view name;
  std::optional<ProcessUsage> usage;
  std::optional<uint64_t> open_files_limit;
};

NamedProcess Look(absl::string_view name, pid_t pid) {
  return {name, ReadProcessUsage(pid), ReadOpenFilesLimit(pid)};
}

void AddProcesses(pid_t agent, MetricsText* text) {
  const NamedProcess processes[] = {Look("listener", getpid()), Look("agent", agent)};
  const auto add = [&](const MetricFamily& family, auto value) {
    text->Begin(family);
    for (const NamedProcess& process : processes) {
      if (!process.usage.has_value()) continue;
      const std::optional<double> number = value(process);
      if (number.has_value()) text->Add({{"process", process.name}}, *number);
    }
  };
  const auto as_double = [](const std::optional<uint64_t>& count) {
    return count.has_value() ? std::make_optional(static_cast<double>(*count)) : std::nullopt;
  };
  add({.name = "millrace_agent_cpu_seconds",
       .type = MetricType::kCounter,
       .help = "Processor time of the agent itself.",
       .unit = "seconds"},
      [](const NamedProcess& process) {
        return std::make_optional(absl::ToDoubleSeconds(process.usage->cpu));
      });
  add({.name = "millrace_agent_resident_memory_bytes",
       .help = "Memory of the agent itself.",
       .unit = "bytes"},
      [&](const NamedProcess& process) { return as_double(process.usage->resident_bytes); });
  add({.name = "millrace_agent_threads", .help = "Threads of the agent itself."},
      [&](const NamedProcess& process) { return as_double(process.usage->threads); });
  add({.name = "millrace_agent_open_descriptors", .help = "File descriptors that are open."},
      [&](const NamedProcess& process) { return as_double(process.usage->open_files); });
  add({.name = "millrace_agent_descriptor_limit", .help = "File descriptors that may be open."},
      [&](const NamedProcess& process) { return as_double(process.open_files_limit); });
}

}  // namespace

void ListenMetrics::SetSlot(SlotUse use) {
  MutexLock lock(&mu_);
  slot_ = use;
}

void ListenMetrics::SetSecretExpiry(absl::Time expiry) {
  MutexLock lock(&mu_);
  secret_expiry_ = expiry;
}

void ListenMetrics::Adopted() {
  MutexLock lock(&mu_);
  ++adoptions_;
}

void ListenMetrics::Refused(Refusal why) {
  MutexLock lock(&mu_);
  ++refusals_[static_cast<size_t>(why)];
}

void ListenMetrics::AgentStarted(pid_t pid) {
  MutexLock lock(&mu_);
  agent_ = pid;
}

void ListenMetrics::AgentCounted(const AgentCounts& counts) {
  MutexLock lock(&mu_);
  present_ = counts;
}

void ListenMetrics::AgentEnded() {
  MutexLock lock(&mu_);
  const uint64_t ended = Ended(present_);
  if (present_.started > ended) lost_ += present_.started - ended;
  before_ = Sum(before_, present_);
  present_ = {};
  agent_ = 0;
}

std::string ListenMetrics::Text(MetricsFormat format) const {
  MetricsText text(format);
  text.Begin({.name = "millrace_agent", .type = MetricType::kInfo, .help = "What runs, where."});
  text.Add({{"version", identity_.version}, {"host", identity_.host}}, 1);
  AddOne({.name = "millrace_agent_started_timestamp_seconds",
          .help = "When the agent began to listen.",
          .unit = "seconds"},
         absl::ToDoubleSeconds(identity_.started - absl::UnixEpoch()), &text);
  pid_t agent = 0;
  {
    MutexLock lock(&mu_);
    agent = agent_;
    if (secret_expiry_ != absl::InfiniteFuture()) {
      AddOne({.name = "millrace_agent_secret_expiry_timestamp_seconds",
              .help = "When the secret's certificate expires.",
              .unit = "seconds"},
             absl::ToDoubleSeconds(secret_expiry_ - absl::UnixEpoch()), &text);
    }
    text.Begin(
        {.name = "millrace_agent_slots", .help = "Places for nodes, by what becomes of them now."});
    for (const SlotName& slot : kSlotNames) {
      text.Add({{"state", slot.name}}, slot.use == slot_ ? 1 : 0);
    }
    AddOne({.name = "millrace_agent_adoptions",
            .type = MetricType::kCounter,
            .help = "Drivers that were given the slot."},
           static_cast<double>(adoptions_), &text);
    text.Begin({.name = "millrace_agent_refusals",
                .type = MetricType::kCounter,
                .help = "Callers that were not, by why."});
    for (const RefusalName& each : kRefusalNames) {
      text.Add({{"reason", each.name}},
               static_cast<double>(refusals_[static_cast<size_t>(each.refusal)]));
    }
    text.Add({{"reason", "handshake"}}, static_cast<double>(FailedHandshakes()));
    const AgentCounts counts = Sum(before_, present_);
    AddNodes(counts, lost_, &text);
    AddOutput(counts, &text);
    AddGpus(present_.gpus, &text);
  }
  AddProcesses(agent, &text);
  return std::move(text).Finish();
}

}  // namespace millrace
