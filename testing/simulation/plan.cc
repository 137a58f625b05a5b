#include "testing/simulation/plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/coordinator/state/role_dealer.h"
#include "testing/simulation/random.h"

namespace millrace::simulation {
namespace {

constexpr absl::Duration kFirstFault = absl::Milliseconds(500);
// From the last burst to the end of the plan: enough for a lease, a backoff and what follows.
constexpr absl::Duration kQuiet = absl::Seconds(180);

constexpr absl::Duration kResumeLease = absl::Seconds(40);

// Faults of one burst follow each other closely, and are mostly of one node.
struct Burst {
  absl::Duration at;
  int executor = 0;
};

bool Lasts(Fault::Kind kind) {
  switch (kind) {
    case Fault::Kind::kStopNode:
    case Fault::Kind::kStopAgent:
    case Fault::Kind::kPauseHost:
    case Fault::Kind::kCutHost:
    case Fault::Kind::kSlowReader:
    case Fault::Kind::kLoseListener:
    case Fault::Kind::kMoveMember:
    case Fault::Kind::kFlapMember:
    case Fault::Kind::kHideMember:
    case Fault::Kind::kDoubleMember:
    case Fault::Kind::kFailResolver:
    case Fault::Kind::kFillDisk:
    case Fault::Kind::kFillStateDisk:
      return true;
    default:
      return false;
  }
}

// What can only be done to agents that listen, or is mostly worth it there.
Fault::Kind ListeningKind(const Plan& plan, Fault::Kind kind, Random* random) {
  using Kind = Fault::Kind;
  static constexpr Kind kKinds[] = {Kind::kBreakCall,    Kind::kBreakCall,    Kind::kKillListener,
                                    Kind::kKillListener, Kind::kLoseListener, Kind::kMoveMember,
                                    Kind::kMoveMember,   Kind::kFlapMember,   Kind::kFlapMember,
                                    Kind::kHideMember,   Kind::kDoubleMember, Kind::kFailResolver,
                                    Kind::kFillDisk,     Kind::kKillListener, Kind::kFillStateDisk};
  if (plan.resumable && random->OneIn(5)) return Kind::kKillDriver;
  if (random->OneIn(2)) {
    const Kind own = kKinds[random->Number(0, std::size(kKinds) - 1)];
    return own == Kind::kFillStateDisk && !plan.resumable ? Kind::kBreakCall : own;
  }
  // Nobody starts two agents for a slot here, or loses one by itself.
  if (kind == Kind::kDuplicateAgent || kind == Kind::kLoseExecutor) return Kind::kKillListener;
  return kind;
}

Fault MakeFault(const Plan& plan, const Burst& burst, Random* random) {
  using Kind = Fault::Kind;
  static constexpr Kind kKinds[] = {
      Kind::kKillNode,        Kind::kExitNode,    Kind::kStopNode,        Kind::kKillAgent,
      Kind::kStopAgent,       Kind::kStopDriver,  Kind::kPauseHost,       Kind::kLoseHost,
      Kind::kCutHost,         Kind::kCutHost,     Kind::kBreakConnection, Kind::kBreakConnection,
      Kind::kSlowReader,      Kind::kJumpDate,    Kind::kDuplicateAgent,  Kind::kRestartNode,
      Kind::kBreakConnection, Kind::kRestartNode, Kind::kLoseExecutor};
  Fault fault;
  fault.kind = kKinds[random->Number(0, std::size(kKinds) - 1)];
  // A local launcher starts one agent for a slot, and its driver is on the same host.
  const bool of_spark = fault.kind == Kind::kLoseHost || fault.kind == Kind::kPauseHost ||
                        fault.kind == Kind::kLoseExecutor || fault.kind == Kind::kDuplicateAgent;
  if (of_spark && plan.launcher == Plan::Launcher::kLocal) fault.kind = Kind::kKillAgent;
  fault.at =
      burst.at + random->Between(absl::ZeroDuration(), absl::Seconds(random->OneIn(2) ? 2 : 25));
  fault.executor =
      random->OneIn(3) ? static_cast<int>(random->Number(0, plan.nodes - 1)) : burst.executor;
  fault.code = static_cast<int>(random->Number(1, 3));
  if (plan.launcher == Plan::Launcher::kListening) {
    fault.kind = ListeningKind(plan, fault.kind, random);
  }
  if (Lasts(fault.kind)) {
    fault.duration =
        random->Between(absl::Milliseconds(100), absl::Seconds(random->OneIn(3) ? 60 : 12));
  } else if (fault.kind == Kind::kStopDriver) {
    fault.duration =
        random->Between(absl::Milliseconds(100), absl::Seconds(random->OneIn(3) ? 40 : 8));
  } else if (fault.kind == Kind::kKillDriver || fault.kind == Kind::kKillListener) {
    fault.duration =
        random->Between(absl::Milliseconds(100), absl::Seconds(random->OneIn(3) ? 25 : 5));
  } else if (fault.kind == Kind::kJumpDate) {
    fault.duration = random->Between(-absl::Hours(2), absl::Hours(2));
  }
  return fault;
}

std::string LauncherText(const Plan& plan) {
  switch (plan.launcher) {
    case Plan::Launcher::kLocal:
      return "a local launcher";
    case Plan::Launcher::kSpark:
      return "Spark";
    case Plan::Launcher::kListening:
      break;
  }
  return absl::StrCat("agents that listen, ",
                      plan.resumable ? "with a state folder" : "without a state folder", ", asked ",
                      plan.resolver_pushes ? "at each change and " : "", "every ",
                      absl::FormatDuration(plan.poll_interval));
}

}  // namespace

Plan MakePlan(uint64_t seed, int nodes, absl::Duration length) {
  Random random(seed, {1});
  Plan plan;
  plan.seed = seed;
  plan.nodes = nodes;
  plan.length = length;
  plan.launcher = random.OneIn(2) ? Plan::Launcher::kLocal : Plan::Launcher::kSpark;
  plan.hosts = plan.launcher == Plan::Launcher::kLocal
                   ? 1
                   : static_cast<int>(random.Number(2, std::max(2, nodes / 2)));
  Random of_place(seed, {7});
  if (of_place.OneIn(3)) {
    plan.launcher = Plan::Launcher::kListening;
    plan.hosts = static_cast<int>(of_place.Number(1, std::max(2, nodes / 2)));
    plan.resumable = of_place.OneIn(2);
    plan.resolver_pushes = of_place.OneIn(2);
    if (of_place.OneIn(2)) plan.poll_interval = absl::Milliseconds(700);
  }
  plan.reuses_ports = of_place.OneIn(2);
  plan.latency = absl::Milliseconds(random.OneIn(4) ? 300 : 5);
  plan.echoes = random.OneIn(2);
  plan.kills_at_end = random.OneIn(4);
  plan.driver_dies = random.OneIn(8);
  CoordinatorOptions& options = plan.options;
  options.cluster_id = "simulated";
  options.roles = *DealRoles(
      {.num_executors = nodes, .num_ps = nodes > 4 ? static_cast<int>(random.Number(0, 2)) : 0});
  options.program.path = "/program";
  options.input_mode = random.OneIn(2) ? InputMode::kDirect : InputMode::kFeed;
  options.reservation_timeout = absl::Minutes(5);
  if (plan.resumable) options.lease = kResumeLease;
  options.failure.stop_timeout = absl::Seconds(10);
  if (!random.OneIn(3)) {
    options.failure.restart = {
        .max_restarts = static_cast<int>(random.Number(1, 20)),
        .initial_backoff = random.Between(absl::Milliseconds(100), absl::Seconds(2)),
        .max_backoff = absl::Seconds(20)};
  }
  options.failure.quarantine.duration = absl::Seconds(20);
  options.processor_share = [] { return 1.0; };
  const int64_t num_faults = random.Number(0, 14);
  Burst burst;
  for (int64_t i = 0; i < num_faults; ++i) {
    if (i == 0 || random.OneIn(4)) {
      burst.at = random.Between(kFirstFault, std::max(kFirstFault, length - kQuiet));
      burst.executor = static_cast<int>(random.Number(0, nodes - 1));
    }
    Random of_fault(seed, {2, static_cast<uint64_t>(i)});
    plan.faults.push_back(MakeFault(plan, burst, &of_fault));
  }
  std::stable_sort(plan.faults.begin(), plan.faults.end(),
                   [](const Fault& a, const Fault& b) { return a.at < b.at; });
  return plan;
}

std::string FaultText(const Fault& fault) {
  const std::string who = absl::StrCat(fault.executor);
  const std::string time = absl::StrCat(", for ", absl::FormatDuration(fault.duration));
  std::string what;
  switch (fault.kind) {
    case Fault::Kind::kKillNode:
      what = absl::StrCat("SIGKILL to node ", who);
      break;
    case Fault::Kind::kExitNode:
      what = absl::StrCat("node ", who, " exits with code ", fault.code);
      break;
    case Fault::Kind::kStopNode:
      what = absl::StrCat("SIGSTOP to node ", who, time);
      break;
    case Fault::Kind::kKillAgent:
      what = absl::StrCat("SIGKILL to the agent of ", who);
      break;
    case Fault::Kind::kStopAgent:
      what = absl::StrCat("SIGSTOP to the agent of ", who, time);
      break;
    case Fault::Kind::kStopDriver:
      what = absl::StrCat("SIGSTOP to the driver", time);
      break;
    case Fault::Kind::kPauseHost:
      what = absl::StrCat("the host of ", who, " is suspended", time);
      break;
    case Fault::Kind::kLoseHost:
      what = absl::StrCat("the host of ", who, " is gone");
      break;
    case Fault::Kind::kLoseExecutor:
      what = absl::StrCat("the executor of ", who, " is gone, and its agent");
      break;
    case Fault::Kind::kCutHost:
      what = absl::StrCat("the host of ", who, " is cut off", time);
      break;
    case Fault::Kind::kBreakConnection:
      what = absl::StrCat("the connection of ", who, " breaks");
      break;
    case Fault::Kind::kSlowReader:
      what = absl::StrCat("the agent of ", who, " reads nothing", time);
      break;
    case Fault::Kind::kDuplicateAgent:
      what = absl::StrCat("another agent for ", who);
      break;
    case Fault::Kind::kRestartNode:
      what = absl::StrCat("an operator restarts ", who);
      break;
    case Fault::Kind::kJumpDate:
      what = absl::StrCat("the date jumps by ", absl::FormatDuration(fault.duration));
      break;
    case Fault::Kind::kBreakCall:
      what = absl::StrCat("the call to the listening agent of ", who, " breaks");
      break;
    case Fault::Kind::kKillListener:
      what = absl::StrCat("SIGKILL to the listening agent of ", who, ", the next one after ",
                          absl::FormatDuration(fault.duration));
      break;
    case Fault::Kind::kLoseListener:
      what = absl::StrCat("another cluster listens in the place of the agent of ", who, time);
      break;
    case Fault::Kind::kMoveMember:
      what = absl::StrCat("the resolver names another place for ", who, time);
      break;
    case Fault::Kind::kFlapMember:
      what = absl::StrCat("the resolver flaps about ", who, time);
      break;
    case Fault::Kind::kHideMember:
      what = absl::StrCat("the resolver does not name ", who, time);
      break;
    case Fault::Kind::kDoubleMember:
      what = absl::StrCat("the resolver names the place of another for ", who, time);
      break;
    case Fault::Kind::kFailResolver:
      what = absl::StrCat("the resolver does not answer", time);
      break;
    case Fault::Kind::kFillDisk:
      what = absl::StrCat("the disk of the host of ", who, " is full", time);
      break;
    case Fault::Kind::kKillDriver:
      what = absl::StrCat("SIGKILL to the driver, the next one after ",
                          absl::FormatDuration(fault.duration));
      break;
    case Fault::Kind::kFillStateDisk:
      what = absl::StrCat("the disk of the state folder is full", time);
      break;
  }
  return absl::StrCat(absl::FormatDuration(fault.at), ": ", what);
}

std::string PlanText(const Plan& plan) {
  const RestartPolicy& restart = plan.options.failure.restart;
  std::string text = absl::StrCat(
      plan.nodes, " nodes on ", plan.hosts, plan.hosts == 1 ? " host" : " hosts", ", started by ",
      LauncherText(plan), plan.reuses_ports ? ", ports are used again" : "", ", ",
      plan.options.input_mode == InputMode::kFeed ? "fed" : "not fed", ", ", restart.max_restarts,
      " restarts", plan.driver_dies ? ", the driver dies" : "",
      plan.echoes ? ", peers end with UNAVAILABLE" : "", ", messages take up to ",
      absl::FormatDuration(plan.latency), ", ", absl::FormatDuration(plan.length), "\n");
  for (const Fault& fault : plan.faults) absl::StrAppend(&text, "  ", FaultText(fault), "\n");
  return text;
}

}  // namespace millrace::simulation
