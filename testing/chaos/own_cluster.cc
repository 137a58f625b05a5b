#include "testing/chaos/own_cluster.h"

#include <signal.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/launch/agent_secret.h"
#include "millrace/adopting_launcher.h"
#include "millrace/cluster.h"
#include "millrace/local_launcher.h"
#include "millrace/node_program.h"
#include "millrace/status_macros.h"
#include "resolver/scripted_resolver.h"
#include "testing/chaos/proxied_launcher.h"
#include "testing/child_process.h"
#include "testing/faults/rows.h"
#include "testing/listening_agent.h"

namespace millrace::chaos {
namespace {

std::string FirstLine(absl::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

// The agents of Place::kListening, one on a loopback address for each slot, as hosts have them.
class Listeners {
 public:
  Listeners(const Plan& plan, const std::string& secret) : plan_(plan), secret_(secret) {}

  absl::Status Start() {
    MILLRACE_ASSIGN_OR_RETURN(const AgentSecret secret, MakeAgentSecret());
    MILLRACE_RETURN_IF_ERROR(WriteAgentSecretFile(secret_, secret));
    agents_.resize(static_cast<size_t>(plan_.executors));
    for (int executor = 0; executor < plan_.executors; ++executor) {
      MILLRACE_RETURN_IF_ERROR(Start(executor));
    }
    resolver_ = std::make_unique<ScriptedResolver>(Members());
    return absl::OkStatus();
  }
  // Of the injector's thread. As Injector says.
  pid_t Kill(int executor) {
    std::unique_ptr<ListeningAgent>& agent = agents_[static_cast<size_t>(executor)];
    if (agent == nullptr) return 0;
    const pid_t pid = agent->process().pid();
    agent->process().Kill(SIGKILL);
    agent.reset();
    if (Start(executor).ok()) resolver_->Answer(Members());
    return pid;
  }
  void End() { agents_.clear(); }
  [[nodiscard]] ClusterResolver& resolver() { return *resolver_; }

 private:
  absl::Status Start(int executor) {
    MILLRACE_ASSIGN_OR_RETURN(
        agents_[static_cast<size_t>(executor)],
        ListeningAgent::Start(absl::StrCat("127.0.0.", 2 + executor), secret_));
    return absl::OkStatus();
  }
  absl::StatusOr<ClusterSpec> Members() const {
    ClusterSpec::TaskList ps;
    ClusterSpec::TaskList workers;
    for (int executor = 0; executor < plan_.executors; ++executor) {
      (executor < plan_.num_ps ? ps : workers)
          .push_back(agents_[static_cast<size_t>(executor)]->address());
    }
    ClusterSpec::JobList jobs = {{"worker", workers}};
    if (!ps.empty()) jobs.emplace_back("ps", ps);
    return ClusterSpec::Create(jobs);
  }

  const Plan& plan_;
  const std::string secret_;
  std::vector<std::unique_ptr<ListeningAgent>> agents_;  // by executor id
  std::unique_ptr<ScriptedResolver> resolver_;
};

class OwnCluster final : public DrivenCluster {
 public:
  OwnCluster(const Plan& plan, NodeSetting setting)
      : plan_(plan),
        setting_(std::move(setting)),
        secret_(JoinPath(setting_.folder, "secret.json")),
        listeners_(plan, secret_) {}

  absl::Status Prepare() override {
    if (plan_.place == Place::kListening) {
      MILLRACE_RETURN_IF_ERROR(listeners_.Start());
      adopting_.emplace(listeners_.resolver(),
                        AdoptingLauncherOptions{.secret = {.file = secret_},
                                                .bind_address = "127.0.0.1",
                                                .driver_host = "127.0.0.1",
                                                .poll_interval = absl::Milliseconds(50)});
      launcher_.emplace(*adopting_);
    } else {
      launcher_.emplace(local_.emplace());
    }
    return absl::OkStatus();
  }

  Reach reach() override {
    Reach reach;
    reach.launcher = &*launcher_;
    if (plan_.place == Place::kListening) {
      reach.kill_listener = [this](int executor) { return listeners_.Kill(executor); };
    }
    return reach;
  }

  absl::Status Start(ClusterHearing hearing) override {
    NodeProgram program = NodeProgram::File(RunfilePath("testing/faults/fault_node"));
    program.Args({"--pause_ms=5", absl::StrCat("--record=", setting_.record)});
    program.Env(setting_.environment);
    MILLRACE_ASSIGN_OR_RETURN(cluster_,
                              Cluster::Run(*launcher_, program, Options(std::move(hearing))));
    return absl::OkStatus();
  }

  absl::StatusOr<TrainResult> Train(int64_t first, bool end_of_feed) override {
    MILLRACE_ASSIGN_OR_RETURN(
        const auto source,
        MemorySource::Split(faults::MakeRows(first, plan_.rows), plan_.partitions));
    return cluster_->Train(*source, {.feed_timeout = kPatience, .end_of_feed = end_of_feed});
  }

  absl::StatusOr<InferenceCheck> Infer() override {
    MILLRACE_ASSIGN_OR_RETURN(
        auto source, MemorySource::Split(faults::MakeRows(0, plan_.rows), plan_.partitions));
    MILLRACE_ASSIGN_OR_RETURN(
        InferenceResult result,
        cluster_->Inference(std::shared_ptr<const PartitionedSource>(std::move(source)),
                            {.feed_timeout = kPatience}));
    InferenceCheck check = {.results = 0, .right = true};
    MILLRACE_RETURN_IF_ERROR(result.ForEach([&](int, const RecordBatch& rows) {
      const auto* values = rows.column(0).values<int64_t>();
      for (int64_t i = 0; i < rows.num_rows(); ++i) {
        check.right = check.right && values[i] == 2 * check.results++;
      }
      return absl::OkStatus();
    }));
    return check;
  }

  bool AllRun() override {
    const std::vector<SlotStatus> slots = cluster_->Status().slots;
    return std::all_of(slots.begin(), slots.end(), [](const SlotStatus& slot) {
      return slot.state == SlotState::kRunning && slot.attached && !slot.restart_at.has_value();
    });
  }

  absl::Status Shutdown() override {
    const absl::Status status = cluster_->Shutdown({.timeout = kPatience});
    cluster_.reset();
    return status;
  }

  std::vector<std::string> End() override {
    cluster_.reset();
    launcher_.reset();
    adopting_.reset();
    local_.reset();
    listeners_.End();
    return {};
  }

 private:
  ClusterOptions Options(ClusterHearing hearing) {
    ClusterOptions options;
    options.num_executors = plan_.executors;
    options.num_ps = plan_.num_ps;
    options.input_mode = InputMode::kFeed;
    options.log_dir = setting_.log_dir;
    options.node.working_dir = setting_.folder;
    options.reservation_timeout = kPatience;
    options.progress = false;
    options.failure.stop_timeout = absl::Seconds(3);
    options.failure.quarantine.failures = 1'000'000;
    if (plan_.heals) {
      options.failure.restart = {.max_restarts = 1'000'000,
                                 .initial_backoff = absl::Milliseconds(20),
                                 .max_backoff = absl::Milliseconds(200)};
    }
    options.observer.on_slot = std::move(hearing.on_slot);
    options.observer.on_restart = [tell =
                                       std::move(hearing.on_restart)](const NodeRestart& restart) {
      tell(restart.failure.executor_id, FirstLine(FailureText(restart.failure, 0)),
           restart.failure.status.code());
    };
    return options;
  }

  const Plan& plan_;
  const NodeSetting setting_;
  const std::string secret_;
  Listeners listeners_;
  std::optional<LocalLauncher> local_;
  std::optional<AdoptingLauncher> adopting_;
  std::optional<ProxiedLauncher> launcher_;
  std::unique_ptr<Cluster> cluster_;
};

}  // namespace

std::unique_ptr<DrivenCluster> MakeOwnCluster(const Plan& plan, const NodeSetting& setting) {
  return std::make_unique<OwnCluster>(plan, setting);
}

}  // namespace millrace::chaos
