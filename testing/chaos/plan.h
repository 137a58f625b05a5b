// File: testing/chaos/plan.h
//
// What a seed decides of a round: the cluster, and what goes wrong in it when.
//
// Defines: Place, Fault, Plan, MakePlan(), SpareLongLived(), NodeName(), FaultText(), PlanText(),
// KindName(), PlaceName(), MayEnd(), CauseTexts().

#ifndef TESTING_CHAOS_PLAN_H_
#define TESTING_CHAOS_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace millrace::chaos {

enum class Place {
  kLocal,      // agents that the driver starts
  kListening,  // agents that listen, and are replaced when they are killed
  kSpark,      // agents that executors of a Spark application start, whose driver is a JVM
};

struct Fault {
  enum class Kind {
    kKillNode,   // SIGKILL
    kStopNode,   // SIGSTOP, SIGCONT after `duration`
    kKillAgent,  // SIGKILL; its node dies with it
    kStopAgent,
    kKillListener,    // the agent that listens; another takes its place
    kStopDriver,      // `executor` means nothing, as for all below that are of the driver
    kSuspend,         // every process of the cluster, the driver included
    kCutConnection,   // of agent and coordinator: both ends see a reset
    kHoldConnection,  // nothing passes for `duration`
    kFillDisk,        // of log_dir
    kFewDescriptors,  // the node may open no more
    kFewDescriptorsOfAgent,
    kFewDescriptorsOfDriver,
    kLittleMemory,  // for the agent and the next attempts of its node, whose node is killed
    kJumpDate,      // of all nodes, by `jump`, and back after `duration`
    kJumpDateOfDriver,
    // On Spark, where the driver is a JVM and the coordinator, its child: kStopDriver stops both.
    kKillExecutor,  // the JVM whose child the agent is; Spark starts another
    kStopExecutor,
    kStopDriverJvm,    // and not the coordinator
    kStopCoordinator,  // and not the JVM
  };
  Kind kind = Kind::kKillNode;
  absl::Duration at;  // from the begin of the round, time in which the driver is stopped left out
  int executor = 0;
  absl::Duration duration;
  absl::Duration jump;
};

struct Plan {
  uint64_t seed = 0;
  Place place = Place::kLocal;
  int executors = 0;
  int num_ps = 0;
  bool heals = true;    // what fails is started again; otherwise the first failure is the cluster's
  bool infers = false;  // inference in the second half of the round, instead of training
  bool spares = false;  // SpareLongLived(): what lives as long as the cluster is judged by growth
  absl::Duration length;  // of the faults
  int64_t rows = 0;       // of each Train call
  int partitions = 0;
  std::vector<Fault> faults;  // by time
};

[[nodiscard]] Plan MakePlan(uint64_t seed, Place place, absl::Duration length);

// Leaves out what ends or suspends executors: these live as long as the cluster then, and what they
// use can be judged.
void SpareLongLived(Plan& plan);

// "worker:1".
[[nodiscard]] std::string NodeName(const Plan& plan, int executor);
// "12.5 s: SIGSTOP to the node of worker:1, for 4 s".
[[nodiscard]] std::string FaultText(const Plan& plan, const Fault& fault);
// Lines.
[[nodiscard]] std::string PlanText(const Plan& plan);
// "kill node".
[[nodiscard]] absl::string_view KindName(Fault::Kind kind);
// "local", "listening", "spark".
[[nodiscard]] absl::string_view PlaceName(Place place);

// Whether the fault may end the node of `executor`.
[[nodiscard]] bool MayEnd(const Fault& fault, int executor);
// What the error of a node that it ended says.
[[nodiscard]] std::vector<absl::string_view> CauseTexts(const Fault& fault);

}  // namespace millrace::chaos

#endif  // TESTING_CHAOS_PLAN_H_
