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

// How often each kind comes, of a hundred.
struct Share {
  Kind kind;
  int share;
};
constexpr Share kShares[] = {
    {Kind::kKillNode, 20},        {Kind::kKillAgent, 12},
    {Kind::kStopNode, 8},         {Kind::kStopAgent, 8},
    {Kind::kStopDriver, 8},       {Kind::kSuspend, 2},
    {Kind::kCutConnection, 10},   {Kind::kHoldConnection, 6},
    {Kind::kFillDisk, 4},         {Kind::kFewDescriptors, 4},
    {Kind::kLittleMemory, 3},     {Kind::kFewDescriptorsOfAgent, 3},
    {Kind::kJumpDate, 3},         {Kind::kFewDescriptorsOfDriver, 2},
    {Kind::kKillListener, 4},  // of the driver's own agents there is none
    {Kind::kJumpDateOfDriver, 3},
};

constexpr Share kSharesOnSpark[] = {
    {Kind::kKillNode, 24},
    {Kind::kKillAgent, 16},
    {Kind::kStopNode, 10},
    {Kind::kStopAgent, 10},
    {Kind::kKillExecutor, 10},
    {Kind::kStopExecutor, 8},
    {Kind::kStopDriver, 6},
    {Kind::kStopDriverJvm, 4},
    {Kind::kStopCoordinator, 4},
    {Kind::kFewDescriptors, 4},
    {Kind::kFewDescriptorsOfAgent, 2},
    {Kind::kSuspend, 2},
};
// JVMs are large: so many executors, each with a node.
constexpr int kMaxExecutorsOnSpark = 3;

Kind ChooseKind(Random& random, Place place) {
  int64_t number = random.Number(0, 99);
  if (place == Place::kSpark) {
    for (const Share& share : kSharesOnSpark) {
      number -= share.share;
      if (number < 0) return share.kind;
    }
  }
  for (const Share& share : kShares) {
    number -= share.share;
    const bool is = place == Place::kListening || share.kind != Kind::kKillListener;
    if (number < 0) return is ? share.kind : Kind::kKillAgent;
  }
  return Kind::kKillNode;
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
    case Kind::kStopDriverJvm:
    case Kind::kStopCoordinator:
    case Kind::kStopExecutor:
      return random.Between(absl::Milliseconds(10), absl::Seconds(8));
    case Kind::kSuspend:
      return absl::Seconds(20);
    case Kind::kFillDisk:
    case Kind::kFewDescriptors:
    case Kind::kFewDescriptorsOfAgent:
    case Kind::kFewDescriptorsOfDriver:
    case Kind::kLittleMemory:
    case Kind::kJumpDate:
    case Kind::kJumpDateOfDriver:
      return random.Between(absl::Milliseconds(100), absl::Seconds(4));
    default:
      return absl::ZeroDuration();
  }
}

// After which the agents must hear the coordinator for a while.
bool SilencesDriver(Kind kind) {
  return kind == Kind::kStopDriver || kind == Kind::kStopCoordinator || kind == Kind::kSuspend;
}

}  // namespace

Plan MakePlan(uint64_t seed, Place place, absl::Duration length) {
  Random random(seed, {kOfCluster});
  Plan plan;
  plan.seed = seed;
  plan.place = place;
  plan.num_ps = random.OneIn(3) ? 1 : 0;
  plan.executors = plan.num_ps + static_cast<int>(random.Number(2, 3));
  if (place == Place::kSpark) {
    plan.num_ps = 0;
    plan.executors = std::min(plan.executors, kMaxExecutorsOnSpark);
  }
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
    } while (at < driver_runs && SilencesDriver(fault.kind));
    fault.at = at;
    fault.executor = static_cast<int>(of_faults.Number(0, plan.executors - 1));
    fault.duration = ChooseDuration(of_faults, fault.kind);
    const absl::Duration jump = of_faults.Between(absl::Seconds(1), absl::Hours(48));
    fault.jump = of_faults.OneIn(2) ? jump : -jump;
    plan.faults.push_back(fault);
    if (SilencesDriver(fault.kind)) {
      // On Spark other faults go on meanwhile.
      driver_runs =
          at + absl::Seconds(3) + (place == Place::kSpark ? fault.duration : absl::ZeroDuration());
    }
    at += of_faults.OneIn(3) ? of_faults.Between(absl::ZeroDuration(), absl::Milliseconds(300))
                             : of_faults.Between(absl::Milliseconds(300), absl::Seconds(3));
  }
  return plan;
}

void SpareLongLived(Plan& plan) {
  plan.spares = true;
  std::vector<Fault>& faults = plan.faults;
  faults.erase(std::remove_if(faults.begin(), faults.end(),
                              [](const Fault& fault) {
                                return fault.kind == Kind::kKillExecutor ||
                                       fault.kind == Kind::kSuspend;
                              }),
               faults.end());
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
    case Kind::kFillDisk:
      return "fill disk";
    case Kind::kFewDescriptors:
      return "no descriptors for node";
    case Kind::kFewDescriptorsOfAgent:
      return "no descriptors for agent";
    case Kind::kFewDescriptorsOfDriver:
      return "no descriptors for driver";
    case Kind::kLittleMemory:
      return "little memory";
    case Kind::kJumpDate:
      return "jump date of nodes";
    case Kind::kJumpDateOfDriver:
      return "jump date of driver";
    case Kind::kKillExecutor:
      return "kill executor";
    case Kind::kStopExecutor:
      return "stop executor";
    case Kind::kStopDriverJvm:
      return "stop driver's JVM alone";
    case Kind::kStopCoordinator:
      return "stop coordinator alone";
  }
  return "";
}

absl::string_view PlaceName(Place place) {
  switch (place) {
    case Place::kLocal:
      return "local";
    case Place::kListening:
      return "listening";
    case Place::kSpark:
      return "spark";
  }
  return "";
}

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
      case Kind::kFillDisk:
        return "the disk of log_dir is full";
      case Kind::kFewDescriptors:
        return absl::StrCat("no more descriptors for the node of ", name);
      case Kind::kFewDescriptorsOfAgent:
        return absl::StrCat("no more descriptors for the agent of ", name);
      case Kind::kFewDescriptorsOfDriver:
        return "no more descriptors for the driver";
      case Kind::kLittleMemory:
        return absl::StrCat("little memory for the agent of ", name, ", SIGKILL to its node");
      case Kind::kJumpDate:
        return absl::StrCat("the date of the nodes jumps by ", Seconds(fault.jump));
      case Kind::kJumpDateOfDriver:
        return absl::StrCat("the date of the driver jumps by ", Seconds(fault.jump));
      case Kind::kKillExecutor:
        return absl::StrCat("SIGKILL to the executor with ", name);
      case Kind::kStopExecutor:
        return absl::StrCat("SIGSTOP to the executor with ", name);
      case Kind::kStopDriverJvm:
        return "SIGSTOP to the driver's JVM";
      case Kind::kStopCoordinator:
        return "SIGSTOP to the coordinator";
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
    case Kind::kFillDisk:
    case Kind::kFewDescriptorsOfDriver:
    case Kind::kJumpDate:
    case Kind::kJumpDateOfDriver:
    case Kind::kStopExecutor:
    case Kind::kStopDriverJvm:
    case Kind::kStopCoordinator:
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
      return {"was stopped by a signal (SIGSTOP)", "was stopped by signal 19 (SIGSTOP)"};
    case Kind::kKillAgent:
      return {"was lost: its agent was killed by SIGKILL", "was lost: no heartbeat"};
    case Kind::kKillListener:
    case Kind::kKillExecutor:
      return {"the parent of the agent of ", "was lost: "};
    case Kind::kStopAgent:
    case Kind::kHoldConnection:
      return {"was lost: no heartbeat", "could not attach again within its lease"};
    case Kind::kSuspend:
      return {"was lost: no heartbeat", "could not attach again within its lease",
              "was stopped by a signal (SIGSTOP)", "was stopped by signal 19 (SIGSTOP)"};
    case Kind::kFewDescriptors:
    case Kind::kFewDescriptorsOfAgent:
      return {"Too many open files"};
    case Kind::kLittleMemory:
      return {"was killed by SIGKILL"};
    default:
      break;
  }
  return {};
}

}  // namespace millrace::chaos
