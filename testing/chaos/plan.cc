#include "testing/chaos/plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "testing/simulation/random.h"

namespace millrace::chaos {
namespace {

using simulation::Random;
using Kind = Fault::Kind;

// Streams of random numbers.
constexpr uint64_t kOfCluster = 1;
constexpr uint64_t kOfFaults = 2;

std::string Seconds(absl::Duration duration) {
  return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(duration));
}

Kind ChooseKind(Random& random, Place place) {
  const int64_t number = random.Number(0, 99);
  if (number < 30) return Kind::kKillNode;
  if (number < 45) return Kind::kKillAgent;
  if (number < 55) return Kind::kStopNode;
  if (number < 65) return Kind::kStopAgent;
  if (number < 75) return Kind::kStopDriver;
  if (number < 77) return Kind::kSuspend;
  if (number < 87) return Kind::kCutConnection;
  if (number < 94 || place == Place::kLocal) return Kind::kHoldConnection;
  return Kind::kKillListener;
}

absl::Duration ChooseDuration(Random& random, Kind kind) {
  switch (kind) {
    case Kind::kStopNode:  // stop_timeout is 3 s
      return random.OneIn(2) ? random.Between(absl::Milliseconds(10), absl::Seconds(1))
                             : random.Between(absl::Seconds(4), absl::Seconds(6));
    case Kind::kStopAgent:  // 5 s of silence end an attempt
    case Kind::kHoldConnection:
      return random.OneIn(2) ? random.Between(absl::Milliseconds(10), absl::Seconds(1))
                             : random.Between(absl::Seconds(6), absl::Seconds(9));
    case Kind::kStopDriver:
      return random.Between(absl::Milliseconds(10), absl::Seconds(8));
    case Kind::kSuspend:
      return absl::Seconds(20);
    default:
      return absl::ZeroDuration();
  }
}

}  // namespace

Plan MakePlan(uint64_t seed, Place place, absl::Duration length) {
  Random random(seed, {kOfCluster});
  Plan plan;
  plan.seed = seed;
  plan.place = place;
  plan.num_ps = random.OneIn(3) ? 1 : 0;
  plan.executors = plan.num_ps + static_cast<int>(random.Number(2, 3));
  plan.heals = !random.OneIn(4);
  plan.infers = random.OneIn(2);
  plan.length = length;
  plan.partitions = static_cast<int>(random.Number(1, 16));
  plan.rows = random.Number(1, 30'000);

  Random of_faults(seed, {kOfFaults});
  // Bursts and quiet times. Between two stops of the driver its agents hear it.
  absl::Duration driver_runs;
  absl::Duration at = of_faults.Between(absl::ZeroDuration(), absl::Seconds(2));
  while (at < length) {
    Fault fault;
    do {
      fault.kind = ChooseKind(of_faults, place);
    } while (at < driver_runs && (fault.kind == Kind::kStopDriver || fault.kind == Kind::kSuspend));
    fault.at = at;
    fault.executor = static_cast<int>(of_faults.Number(0, plan.executors - 1));
    fault.duration = ChooseDuration(of_faults, fault.kind);
    plan.faults.push_back(fault);
    if (fault.kind == Kind::kStopDriver || fault.kind == Kind::kSuspend) {
      driver_runs = at + absl::Seconds(3);
    }
    at += of_faults.OneIn(3) ? of_faults.Between(absl::ZeroDuration(), absl::Milliseconds(300))
                             : of_faults.Between(absl::Milliseconds(300), absl::Seconds(3));
  }
  return plan;
}

absl::string_view KindName(Kind kind) {
  switch (kind) {
    case Kind::kKillNode:
      return "kill node";
    case Kind::kStopNode:
      return "stop node";
    case Kind::kKillAgent:
      return "kill agent";
    case Kind::kStopAgent:
      return "stop agent";
    case Kind::kKillListener:
      return "kill listening agent";
    case Kind::kStopDriver:
      return "stop driver";
    case Kind::kSuspend:
      return "suspend all";
    case Kind::kCutConnection:
      return "cut connection";
    case Kind::kHoldConnection:
      return "hold connection";
  }
  return "";
}

absl::string_view PlaceName(Place place) { return place == Place::kLocal ? "local" : "listening"; }

std::string NodeName(const Plan& plan, int executor) {
  return executor < plan.num_ps ? absl::StrCat("ps:", executor)
                                : absl::StrCat("worker:", executor - plan.num_ps);
}

std::string FaultText(const Plan& plan, const Fault& fault) {
  const std::string name = NodeName(plan, fault.executor);
  const auto text = [&]() -> std::string {
    switch (fault.kind) {
      case Kind::kKillNode:
        return absl::StrCat("SIGKILL to the node of ", name);
      case Kind::kStopNode:
        return absl::StrCat("SIGSTOP to the node of ", name);
      case Kind::kKillAgent:
        return absl::StrCat("SIGKILL to the agent of ", name);
      case Kind::kStopAgent:
        return absl::StrCat("SIGSTOP to the agent of ", name);
      case Kind::kKillListener:
        return absl::StrCat("SIGKILL to the agent that listens for ", name);
      case Kind::kStopDriver:
        return "SIGSTOP to the driver";
      case Kind::kSuspend:
        return "SIGSTOP to all processes";
      case Kind::kCutConnection:
        return absl::StrCat("the agent of ", name, " loses its connection");
      case Kind::kHoldConnection:
        return absl::StrCat("nothing passes between the agent of ", name, " and the coordinator");
    }
    return "";
  };
  const std::string lasts =
      fault.duration == absl::ZeroDuration() ? "" : absl::StrCat(", for ", Seconds(fault.duration));
  return absl::StrCat(Seconds(fault.at), ": ", text(), lasts);
}

std::string PlanText(const Plan& plan) {
  std::string text = absl::StrCat("seed ", plan.seed, ", ", PlaceName(plan.place), ": ",
                                  plan.num_ps, " ps and ", plan.executors - plan.num_ps,
                                  " workers, ", plan.heals ? "started again" : "no restarts",
                                  plan.infers ? ", training and inference" : ", training", ", ",
                                  plan.rows, " rows in ", plan.partitions, " partitions\n");
  for (const Fault& fault : plan.faults) absl::StrAppend(&text, "  ", FaultText(plan, fault), "\n");
  return text;
}

bool MayEnd(const Fault& fault, int executor) {
  switch (fault.kind) {
    case Kind::kStopDriver:  // less than agents wait for it
    case Kind::kCutConnection:
      return false;
    case Kind::kSuspend:
      return true;
    default:
      return fault.executor == executor;
  }
}

std::vector<absl::string_view> CauseTexts(const Fault& fault) {
  switch (fault.kind) {
    case Kind::kKillNode:
      return {"was killed by SIGKILL"};
    case Kind::kStopNode:
      return {"was stopped by a signal (SIGSTOP)"};
    case Kind::kKillAgent:
      return {"was lost: its agent was killed by SIGKILL", "was lost: no heartbeat"};
    case Kind::kKillListener:
      return {"the parent of the agent of ", "was lost: "};
    case Kind::kStopAgent:
    case Kind::kHoldConnection:
      return {"was lost: no heartbeat", "could not attach again within its lease"};
    case Kind::kSuspend:
      return {"was lost: no heartbeat", "could not attach again within its lease",
              "was stopped by a signal (SIGSTOP)"};
    case Kind::kStopDriver:
    case Kind::kCutConnection:
      break;
  }
  return {};
}

}  // namespace millrace::chaos
