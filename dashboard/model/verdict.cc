#include "dashboard/model/verdict.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/text.h"
#include "core/client/cluster_view.h"
#include "dashboard/model/dashboard_model.h"
#include "dashboard/model/format.h"

namespace millrace::dashboard {
namespace {

// From this mean utilisation on, in percent, GPUs count as busy.
constexpr float kBusy = 70;
constexpr size_t kMaxReason = 160;
constexpr size_t kMaxQuoted = 60;

using Phase = v1::ClusterInfo;

Jump To(Panel panel, int node = -1, int64_t event = -1) {
  Jump jump;
  jump.panel = panel;
  jump.selection.node = node;
  jump.selection.event = event;
  return jump;
}

std::string Plural(int64_t count, absl::string_view one, absl::string_view many) {
  return absl::StrCat(FormatCount(count), " ", count == 1 ? one : many);
}

// ---- Q1: why has my cluster not started ----

// What a slot in this state has done, and what it has not.
absl::string_view Missing(v1::SlotState state) {
  switch (state) {
    case v1::SLOT_STATE_REQUESTED:
      return "agent requested, not started";
    case v1::SLOT_STATE_STARTED:
      return "agent started, not connected";
    case v1::SLOT_STATE_CONNECTED:
      return "agent connected, not registered";
    case v1::SLOT_STATE_REGISTERED:
      return "registered, not ready";
    case v1::SLOT_STATE_READY:
      return "ready, program not running";
    default:
      return "not running";
  }
}

// The newest thing that was said about a node that is on its way: an event of trouble, or a line of
// its agent. Empty: nothing.
std::string LastTrouble(const DashboardModel& model, int executor_id) {
  const auto& events = model.timeline().events();
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (event->executor_id == executor_id && event->severity >= v1::Event::SEVERITY_WARNING) {
      return Ellipsize(FirstLine(event->text), kMaxReason);
    }
  }
  const LogRing& logs = model.logs();
  const uint64_t oldest = logs.end() - std::min<uint64_t>(logs.size(), 2000);
  for (uint64_t number = logs.end(); number > oldest; --number) {
    const LogLine line = logs.line(number - 1);
    if (line.executor_id == executor_id && line.source == LogSource::kAgent &&
        line.level >= LogLevel::kWarning) {
      return Ellipsize(FirstLine(line.text), kMaxReason);
    }
  }
  return "";
}

VerdictSentence Reserving(const DashboardModel& model) {
  // The slot that holds everybody up.
  const Census& census = model.census();
  const NodeState* const slowest =
      census.slowest < 0 ? nullptr : &model.nodes()[static_cast<size_t>(census.slowest)];
  const int running = census.by_state[v1::SLOT_STATE_RUNNING];
  VerdictSentence sentence;
  const int slots = static_cast<int>(model.nodes().size());
  const absl::Duration age = model.now() - model.cluster().started;
  if (slowest == nullptr) {
    sentence.mood = Mood::kBusy;
    sentence.text = absl::StrCat("Starting: ", Plural(running, "slot runs", "slots run"), " after ",
                                 FormatSpan(age), ".");
    sentence.jump = To(Panel::kReservations);
    return sentence;
  }
  const absl::Duration waits = model.now() - std::max(slowest->since(), model.cluster().started);
  int behind = 0;
  for (int state = 0; state <= std::min<int>(slowest->state, kSlotStates - 1); ++state) {
    behind += census.by_state[state];
  }
  sentence.jump = To(Panel::kReservations, slowest->executor_id);
  sentence.evidence = absl::StrCat(running, " of ", slots, " run; ", behind, " at or below \"",
                                   SlotStateText(slowest->state), "\"");
  // A slot that is behind all others for long is missing; a cluster on its way is starting.
  if (waits >= absl::Seconds(5)) {
    sentence.mood = waits >= absl::Seconds(10) ? Mood::kBad : Mood::kWarning;
    sentence.text = absl::StrCat("Waiting for ", slowest->name);
    if (behind > 1) absl::StrAppend(&sentence.text, " and ", Plural(behind - 1, "other", "others"));
    absl::StrAppend(&sentence.text, ": ", Missing(slowest->state), " for ", FormatSpan(waits));
    if (const std::string trouble = LastTrouble(model, slowest->executor_id); !trouble.empty()) {
      absl::StrAppend(&sentence.text, "; ", absl::StripSuffix(trouble, "."));
    } else if (!slowest->host.empty()) {
      absl::StrAppend(&sentence.text, "; host ", slowest->host);
    }
    sentence.text += ".";
    return sentence;
  }
  sentence.mood = Mood::kBusy;
  sentence.text = absl::StrCat("Starting: ", FormatCount(running), " of ", FormatCount(slots),
                               " slots run after ", FormatSpan(age), "; slowest is ", slowest->name,
                               ": ", Missing(slowest->state), " for ", FormatSpan(waits), ".");
  return sentence;
}

VerdictSentence Running(const DashboardModel& model) {
  VerdictSentence sentence;
  sentence.jump = To(Panel::kReservations);
  const Census& census = model.census();
  const NodeState* const absent =
      census.absent < 0 ? nullptr : &model.nodes()[static_cast<size_t>(census.absent)];
  const int running =
      census.by_state[v1::SLOT_STATE_RUNNING] + census.by_state[v1::SLOT_STATE_DRAINING];
  const int finished = census.by_state[v1::SLOT_STATE_FINISHED];
  const int slots = static_cast<int>(model.nodes().size());
  if (absent != nullptr) {
    sentence.mood = Mood::kWarning;
    sentence.jump = To(Panel::kReservations, absent->executor_id);
    sentence.text = absl::StrCat("Running with ", FormatCount(running), " of ", FormatCount(slots),
                                 " slots; ", absent->name, " ");
    if (absent->restart_at > model.now()) {
      absl::StrAppend(&sentence.text, "starts again in ",
                      FormatSpan(absent->restart_at - model.now()));
    } else if (absent->attempt > 0 && !absent->ended()) {
      absl::StrAppend(&sentence.text, "comes back: ", Missing(absent->state), ", attempt ",
                      absent->attempt);
    } else {
      absl::StrAppend(&sentence.text, "is ", SlotStateText(absent->state));
    }
    absl::StrAppend(&sentence.text, ".");
    return sentence;
  }
  sentence.mood = Mood::kGood;
  sentence.text = slots == 1 ? "Running. The slot was ready"
                             : absl::StrCat("Running. All ", FormatCount(slots), " slots ready");
  if (model.all_ran() != absl::InfinitePast()) {
    absl::StrAppend(&sentence.text, " ", FormatSpan(model.all_ran() - model.cluster().started),
                    " after start");
  }
  absl::StrAppend(&sentence.text, ".");
  if (finished > 0) {
    absl::StrAppend(&sentence.text, " ", Plural(finished, "has", "have"), " finished.");
  }
  return sentence;
}

VerdictSentence NotConnected(const DashboardModel& model) {
  const LinkState& link = model.health().link;
  VerdictSentence sentence;
  sentence.jump = To(Panel::kVerdict);
  const std::string reason = link.reason.empty() ? "" : absl::StrCat(": ", link.reason);
  switch (link.kind) {
    case LinkState::Kind::kRefused:
      sentence.mood = Mood::kBad;
      sentence.text = absl::StrCat("Refused", reason);
      break;
    case LinkState::Kind::kLost:
      sentence.mood = Mood::kBad;
      sentence.text = absl::StrCat("The cluster is gone", reason);
      break;
    case LinkState::Kind::kEnded:
      sentence.text = absl::StrCat("The cluster has ended", reason);
      break;
    default:
      sentence.mood = Mood::kBusy;
      sentence.text = absl::StrCat("Connecting", reason);
  }
  if (!absl::EndsWith(sentence.text, ".")) sentence.text += ".";
  return sentence;
}

VerdictSentence Start(const DashboardModel& model) {
  if (!model.has_data()) return NotConnected(model);
  const LinkHealth& health = model.health();
  const ClusterFacts& cluster = model.cluster();
  VerdictSentence sentence;
  if (health.stale && cluster.phase < Phase::PHASE_ENDED) {
    sentence.mood = Mood::kBad;
    sentence.jump = To(Panel::kTimeline);
    const bool lost = health.link.kind == LinkState::Kind::kLost;
    sentence.text = absl::StrCat(
        lost ? "The driver is gone; the last news is of " : "Connection lost ",
        FormatAge(model.now() - health.data_age, model.now()), "; what is shown is as of ",
        FormatClock(model.data_time(), model.options().zone), ".");
    sentence.evidence = health.link.reason;
    return sentence;
  }
  switch (cluster.phase) {
    case Phase::PHASE_RESERVING:
      return Reserving(model);
    case Phase::PHASE_RUNNING:
      return Running(model);
    case Phase::PHASE_STOPPING: {
      const int left = model.census().nodes - model.census().ended;
      sentence.mood = Mood::kBusy;
      sentence.text =
          absl::StrCat("Stopping: ", Plural(left, "node has", "nodes have"), " not ended yet.");
      sentence.jump = To(Panel::kReservations);
      return sentence;
    }
    case Phase::PHASE_FAILED:
      sentence.mood = Mood::kBad;
      sentence.text = "Failed";
      if (model.all_ran() == absl::InfinitePast()) {
        absl::StrAppend(&sentence.text, " before all slots were running,");
      }
      if (!model.timeline().phases().empty() &&
          model.timeline().phases().back().phase == Phase::PHASE_FAILED &&
          cluster.started != absl::InfinitePast()) {
        absl::StrAppend(&sentence.text, " ",
                        FormatSpan(model.timeline().phases().back().from - cluster.started),
                        " after start");
      }
      sentence.text += ".";
      sentence.jump = To(Panel::kTimeline, cluster.first_cause_executor);
      return sentence;
    case Phase::PHASE_ENDED: {
      const int finished = model.census().by_state[v1::SLOT_STATE_FINISHED];
      sentence.mood = Mood::kGood;
      sentence.text =
          absl::StrCat("Ended. ", FormatCount(finished), " of ",
                       FormatCount(static_cast<int64_t>(model.nodes().size())), " nodes finished.");
      sentence.jump = To(Panel::kTimeline);
      return sentence;
    }
    default:
      sentence.text = "The cluster's phase is unknown.";
      return sentence;
  }
}

// ---- Q2: why are my GPUs idle ----

std::string WhyIdle(const DashboardModel& model, VerdictSentence* sentence) {
  const Census& feed = model.census();
  if (model.cluster().input_mode != v1::INPUT_MODE_FEED) {
    sentence->jump = To(Panel::kGpus);
    return "the nodes read their own data (InputMode DIRECT)";
  }
  const bool open = std::any_of(model.feeds().begin(), model.feeds().end(),
                                [](const auto& entry) { return !entry.second.info.closed(); });
  sentence->evidence = absl::StrCat(
      "lately: ", FormatSi(feed.rows_lately, "rows/s"), ", ", FormatBytesRate(feed.bytes_lately),
      "; nodes wait ", FormatFraction(feed.starved_lately), " of their time on average");
  if (!open) {
    sentence->jump = To(Panel::kFeed);
    return model.feeds().empty() ? "no feed has been opened" : "no feed is open";
  }
  if (feed.fed > 2 && feed.waiting > 0 && feed.richest_share > 0.5f) {
    sentence->jump = To(Panel::kFeed, feed.richest);
    return absl::StrCat("skewed; ", model.NodeName(feed.richest), " gets ",
                        FormatFraction(feed.richest_share), " of the rows and ",
                        Plural(feed.waiting, "node waits", "nodes wait"));
  }
  // All alike: none of them is the slow one.
  if (feed.fed > 1 && feed.fullest_by > Census::kHeldUp &&
      2 * feed.least_full_by >= feed.fullest_by) {
    sentence->jump = To(Panel::kFeed);
    return absl::StrCat("the programs are slow, not the feed; the queues of all ",
                        FormatCount(feed.fed), " nodes are full up to ",
                        FormatFraction(feed.fullest_by), " of the time");
  }
  if (feed.fullest >= 0 && feed.fullest_by > Census::kHeldUp) {
    sentence->jump = To(Panel::kFeed, feed.fullest);
    std::string why =
        absl::StrCat("backpressure; ", model.NodeName(feed.fullest), " is slow, its queue is full ",
                     FormatFraction(feed.fullest_by), " of the time");
    if (feed.waiting > 0) {
      absl::StrAppend(&why, ", and ", Plural(feed.waiting, "other waits", "others wait"), " up to ",
                      FormatFraction(feed.most_starved_by));
    }
    return why;
  }
  if (feed.most_starved >= 0 && feed.most_starved_by > Census::kHeldUp) {
    sentence->jump = To(Panel::kFeed, feed.most_starved);
    return absl::StrCat("starved; the source gives ", FormatBytesRate(feed.bytes_lately),
                        " and node ", model.NodeName(feed.most_starved), " waits ",
                        FormatFraction(feed.most_starved_by), " of its time");
  }
  sentence->jump = To(Panel::kFeed);
  return "rows come in time; the programs use their GPUs little";
}

VerdictSentence Gpus(const DashboardModel& model) {
  VerdictSentence sentence;
  sentence.jump = To(Panel::kGpus);
  if (!model.has_data()) {
    sentence.text = "GPUs: nothing is known yet.";
    return sentence;
  }
  const Census& facts = model.census();
  const int reporting = facts.hosts_reporting;
  const int without = facts.hosts_without_gpus;
  std::string host_without;
  std::string why_unknown;
  if (without > 0) {
    const HostState& host = model.hosts()[static_cast<size_t>(facts.host_without_gpus)];
    host_without = host.name;
    why_unknown = host.gpus_unknown;
  }
  if (facts.gpus_counted == 0) {
    if (model.cluster().phase >= Phase::PHASE_ENDED) {
      sentence.text = model.cluster().phase == Phase::PHASE_FAILED
                          ? "GPUs: free, the cluster has failed."
                          : "GPUs: free, the cluster has ended.";
    } else if (model.health().stale) {
      sentence.text = "GPUs: nothing is known since the connection was lost.";
    } else if (reporting == 0) {
      sentence.text = model.cluster().phase == Phase::PHASE_RESERVING
                          ? "GPUs: waiting for the cluster to start."
                          : "GPUs: no host has reported any.";
    } else if (without > 0) {
      sentence.text = absl::StrCat("GPUs unknown on ", without, " of ",
                                   Plural(reporting, "host", "hosts"), ": ", why_unknown, ".");
    } else {
      sentence.text = "GPUs: none is in use.";
    }
    return sentence;
  }
  const float idle = 100 - facts.gpu_utilization_lately;
  const bool starting = model.cluster().phase == Phase::PHASE_RESERVING;
  if (starting) {
    sentence.text =
        absl::StrCat("GPUs idle ", FormatPercent(idle), ": the cluster has not started yet.");
  } else if (facts.gpu_utilization_lately >= kBusy) {
    sentence.mood = Mood::kGood;
    sentence.text =
        absl::StrCat("GPUs busy: ", FormatPercent(facts.gpu_utilization_lately), " on average");
    if (facts.gpus_throttled == 0) sentence.text += ".";
  } else {
    sentence.mood = Mood::kWarning;
    const std::string why = WhyIdle(model, &sentence);
    sentence.text = absl::StrCat("GPUs idle ", FormatPercent(idle), ": ", why);
    if (facts.gpus_throttled == 0) sentence.text += ".";
  }
  if (!starting && facts.gpus_throttled > 0) {
    const GpuState& hottest = model.gpus()[static_cast<size_t>(facts.hottest)];
    sentence.mood = Mood::kWarning;
    if (facts.gpu_utilization_lately >= kBusy) sentence.jump.selection.gpu = facts.hottest;
    absl::StrAppend(&sentence.text, facts.gpu_utilization_lately >= kBusy ? ", but " : "; ",
                    Plural(facts.gpus_throttled, "GPU throttles", "GPUs throttle"),
                    " for heat; hottest is ", model.GpuName(facts.hottest), " at ",
                    FormatNumber(std::round(hottest.value(GpuMetric::kTemperature))), " °C");
    const float clock = hottest.value(GpuMetric::kClock);
    if (Known(clock) && hottest.max_clock_mhz > 0 && clock < hottest.max_clock_mhz) {
      absl::StrAppend(&sentence.text, ", its clock ",
                      FormatPercent(100 - 100 * clock / hottest.max_clock_mhz),
                      " below its maximum");
    }
    sentence.text += ".";
  }
  if (without > 0) {
    absl::StrAppend(&sentence.text, " Unknown on ",
                    without == 1 ? host_without : Plural(without, "host", "hosts"), ": ",
                    why_unknown, ".");
  }
  return sentence;
}

// ---- Q3: which node broke it first ----

// The heart of a failure's text: "killed by SIGKILL" of "worker:3 (executor 3, attempt 0, host h4,
// pid 42) was killed by SIGKILL. Last stderr line: 'x'". The whole text is the evidence.
std::string WhatHappened(absl::string_view text, const std::string& name) {
  std::string line = FirstLine(text);
  absl::string_view rest = line;
  // "worker:3 is started again in 1 s (restart 2 of 5): worker:3 (executor 3, ...": what follows is
  // why.
  if (const size_t why = rest.find("): " + name); why != absl::string_view::npos) {
    rest.remove_prefix(why + 3);
  }
  absl::ConsumePrefix(&rest, "the cluster has failed: ");
  if (absl::ConsumePrefix(&rest, name) && absl::StartsWith(rest, " (")) {
    const size_t close = rest.find(") ");
    if (close != absl::string_view::npos) rest.remove_prefix(close + 1);
  }
  rest = absl::StripPrefix(absl::StripPrefix(rest, ":"), " ");
  rest = absl::StripPrefix(rest, "was ");
  absl::string_view last_line;
  if (const size_t last = rest.find(". Last stderr line: "); last != absl::string_view::npos) {
    last_line = rest.substr(last + 20);
    rest = rest.substr(0, last);
  }
  rest = rest.substr(0, rest.find("; not restarted: "));
  rest = rest.substr(0, rest.find("; before: "));
  constexpr absl::string_view kAdvice = " (if nobody did that, its host was short of memory";
  std::string what(rest.substr(0, rest.find(kAdvice)));
  if (absl::StrContains(rest, kAdvice)) what += ", perhaps its host was out of memory";
  if (!last_line.empty() && last_line.size() <= kMaxQuoted) absl::StrAppend(&what, ": ", last_line);
  return Ellipsize(absl::StripSuffix(what, "."), kMaxReason);
}

VerdictSentence Failure(const DashboardModel& model) {
  VerdictSentence sentence;
  sentence.jump = To(Panel::kTimeline);
  if (!model.has_data()) {
    sentence.text = "Failures: nothing is known yet.";
    return sentence;
  }
  const Timeline& timeline = model.timeline();
  const ClusterFacts& cluster = model.cluster();
  const TimelineEvent* first = timeline.first_cause();
  if (first != nullptr || !cluster.first_cause.empty()) {
    sentence.mood = Mood::kBad;
    const int executor = first != nullptr && first->executor_id >= 0 ? first->executor_id
                                                                     : cluster.first_cause_executor;
    const std::string text = first != nullptr ? first->text : cluster.first_cause;
    const std::string name = executor >= 0 ? model.NodeName(executor) : "";
    sentence.jump.selection.node = executor;
    sentence.evidence = text;
    const std::string what = WhatHappened(text, name);
    sentence.text = executor >= 0 ? absl::StrCat(name, " failed first (", what, ")") : what;
    if (first != nullptr) {
      sentence.jump.selection.event = static_cast<int64_t>(first->number);
      sentence.jump.at = first->time;
      absl::StrAppend(&sentence.text, " at ", FormatClock(first->time, model.options().zone));
    }
    if (cluster.folded_failures > 0) {
      absl::StrAppend(&sentence.text, "; ",
                      Plural(cluster.folded_failures, "later failure", "later failures"),
                      " folded");
    }
    sentence.text += ".";
    return sentence;
  }
  // Nothing fatal: what was healed?
  const Census& census = model.census();
  const NodeState* const restless =
      census.restless < 0 ? nullptr : &model.nodes()[static_cast<size_t>(census.restless)];
  if (restless == nullptr) {
    sentence.mood = Mood::kGood;
    sentence.text = "No failures.";
    return sentence;
  }
  sentence.mood = Mood::kWarning;
  sentence.jump.selection.node = restless->executor_id;
  const int of_it = census.restless_restarts;
  sentence.text = absl::StrCat("Nothing fatal, but ", restless->name, " was started again ",
                               of_it == 1 ? "once" : absl::StrCat(of_it, " times"));
  const auto& events = timeline.events();
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (event->executor_id != restless->executor_id || event->kind != "restart" ||
        event->severity < v1::Event::SEVERITY_WARNING) {
      continue;
    }
    sentence.jump.selection.event = static_cast<int64_t>(event->number);
    sentence.jump.at = event->time;
    absl::StrAppend(&sentence.text, ", last at ", FormatClock(event->time, model.options().zone),
                    ": ", WhatHappened(event->text, restless->name));
    break;
  }
  if (census.restarts > of_it) {
    absl::StrAppend(&sentence.text, "; ", Plural(census.restarts - of_it, "restart", "restarts"),
                    " of other nodes");
  }
  sentence.text += ".";
  return sentence;
}

}  // namespace

absl::string_view MoodName(Mood mood) {
  switch (mood) {
    case Mood::kGood:
      return "good";
    case Mood::kNeutral:
      return "neutral";
    case Mood::kBusy:
      return "busy";
    case Mood::kWarning:
      return "warning";
    case Mood::kBad:
      return "bad";
  }
  return "unknown";
}

Verdict MakeVerdict(const DashboardModel& model) {
  Verdict verdict;
  verdict.start = Start(model);
  verdict.gpus = Gpus(model);
  verdict.failure = Failure(model);
  return verdict;
}

std::string FormatVerdict(const Verdict& verdict) {
  return absl::StrCat(verdict.start.text, "\n", verdict.gpus.text, "\n", verdict.failure.text,
                      "\n");
}

}  // namespace millrace::dashboard
