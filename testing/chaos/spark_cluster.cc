#include "testing/chaos/spark_cluster.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/base/unique_fd.h"
#include "core/process/process.h"
#include "millrace/client.h"
#include "millrace/cluster_file.h"
#include "millrace/status_macros.h"
#include "testing/child_process.h"
#include "testing/eventually.h"
#include "testing/process_table.h"

namespace millrace::chaos {
namespace {

// Master, worker, driver and executors start, on a machine that may be busy.
constexpr absl::Duration kSparkStarts = absl::Minutes(5);
// What the driver says begins so.
constexpr absl::string_view kReply = "chaos ";
constexpr absl::Duration kLook = absl::Milliseconds(20);
// What was killed may take so long to be gone.
constexpr absl::Duration kGoneWithin = absl::Seconds(30);

// "ABORTED worker:1 (...) was killed": what the driver's call has thrown.
absl::Status ErrorOf(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(' ', 1));
  for (int code = 1; code <= static_cast<int>(absl::StatusCode::kUnauthenticated); ++code) {
    if (absl::StatusCodeToString(static_cast<absl::StatusCode>(code)) == parts.first) {
      return {static_cast<absl::StatusCode>(code), parts.second};
    }
  }
  return absl::UnknownError(text);
}

absl::StatusOr<std::vector<int64_t>> Numbers(absl::string_view text) {
  std::vector<int64_t> numbers;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(word, &number)) {
      return absl::InternalError(absl::StrCat("the driver's numbers make no sense: ", text));
    }
    numbers.push_back(number);
  }
  return numbers;
}

class SparkCluster final : public DrivenCluster {
 public:
  SparkCluster(const Plan& plan, NodeSetting setting)
      : plan_(plan),
        setting_(std::move(setting)),
        folder_(JoinPath(setting_.folder, "spark")),
        commands_path_(JoinPath(folder_, "commands")) {}

  ~SparkCluster() override { End(); }

  absl::Status Prepare() override {
    ::mkdir(folder_.c_str(), 0755);
    if (::mkfifo(commands_path_.c_str(), 0600) != 0) {
      return absl::ErrnoToStatus(errno, commands_path_);
    }
    // For reading too: there is always a reader then, and nobody is sent a signal.
    commands_ = UniqueFd(::open(commands_path_.c_str(), O_RDWR | O_CLOEXEC));
    std::vector<std::string> argv = {
        RunfilePath("testing/chaos/spark_driver"), absl::StrCat("--folder=", folder_),
        absl::StrCat("--executors=", plan_.executors), absl::StrCat("--commands=", commands_path_)};
    if (plan_.spares) argv.push_back("--touched-heaps");
    MILLRACE_ASSIGN_OR_RETURN(spark_, ChildProcess::Start(argv));
    MILLRACE_ASSIGN_OR_RETURN(std::string line, spark_->WaitForLine(kReply, kSparkStarts));
    absl::string_view reply = line;
    absl::ConsumePrefix(&reply, kReply);
    if (absl::ConsumePrefix(&reply, "unavailable ")) return absl::UnimplementedError(reply);
    int64_t pid = 0;
    if (!absl::ConsumePrefix(&reply, "ready ") || !absl::SimpleAtoi(reply, &pid)) {
      return absl::InternalError(absl::StrCat("the driver began with: ", line));
    }
    driver_ = static_cast<pid_t>(pid);
    return absl::OkStatus();
  }

  Reach reach() override {
    Reach reach;
    reach.driver = [this] {
      MutexLock lock(&mu_);
      return DriverPids{.jvm = driver_, .coordinator = coordinator_};
    };
    return reach;
  }

  absl::Status Start(ClusterHearing hearing) override {
    hearing_ = std::move(hearing);
    watcher_.emplace("chaos-spark", [this] { Watch(); });
    std::string environment;
    for (const auto& [name, value] : setting_.environment) {
      absl::StrAppend(&environment, "\t", name, "=", value);
    }
    return Ask(absl::StrCat("run\t", plan_.executors, "\t", plan_.heals ? 1 : 0, "\t",
                            setting_.log_dir, "\t", RunfilePath("testing/faults/fault_node"), "\t",
                            setting_.record, environment))
        .status();
  }

  absl::StatusOr<TrainResult> Train(int64_t first, bool end_of_feed) override {
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers,
                              AskNumbers(absl::StrCat("train\t", first, "\t", plan_.rows, "\t",
                                                      plan_.partitions, "\t", end_of_feed ? 1 : 0),
                                         3));
    TrainResult result;
    result.rows = numbers[0];
    result.rows_refed = numbers[1];
    result.exactly_once = numbers[2] != 0;
    return result;
  }

  absl::StatusOr<InferenceCheck> Infer() override {
    MILLRACE_ASSIGN_OR_RETURN(
        const std::vector<int64_t> numbers,
        AskNumbers(absl::StrCat("infer\t", plan_.rows, "\t", plan_.partitions), 2));
    return InferenceCheck{.results = numbers[0], .right = numbers[1] != 0};
  }

  bool AllRun() override {
    MutexLock lock(&mu_);
    if (client_ == nullptr) return false;
    const absl::StatusOr<ClusterSnapshot> now = client_->Snapshot();
    return now.ok() && std::all_of(now->slots.begin(), now->slots.end(), [](const auto& slot) {
             return slot.state == SlotState::kRunning && slot.attached &&
                    !slot.restart_at.has_value();
           });
  }

  std::map<std::string, Usage> Live() override {
    std::map<std::string, Usage> live;
    const absl::StatusOr<std::string> heaps = Ask("heaps");
    // "driver=1048576 0=2097152": bytes by Spark's id of the executor.
    for (const absl::string_view word :
         absl::StrSplit(heaps.ok() ? *heaps : "", ' ', absl::SkipEmpty())) {
      const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(word, '=');
      int64_t bytes = 0;
      if (!absl::SimpleAtoi(parts.second, &bytes)) continue;
      live[absl::StrCat("the heap of ", parts.first)].memory_bytes = bytes;
    }
    live["Spark's folder"].files = FilesBelow(folder_);
    return live;
  }

  absl::Status Shutdown() override {
    const absl::Status status =
        Ask(absl::StrCat("shutdown\t", absl::ToInt64Milliseconds(kPatience))).status();
    // Its log of events is complete when it has ended.
    (void)Eventually([this] { return !ReadProcess(reach().driver().coordinator).has_value(); },
                     kGoneWithin);
    TellRestarts();
    return status;
  }

  std::vector<std::string> End() override {
    if (spark_ == nullptr) return {};
    stop_.Notify();
    if (watcher_.has_value()) watcher_->Join();
    {
      MutexLock lock(&mu_);
      watch_.reset();
      client_.reset();
    }
    // Before Spark ends what is its: the application goes on, and has no cluster any more.
    std::vector<std::string> left;
    (void)Eventually([&] { return (left = OfCluster()).empty(); }, kGoneWithin);
    if (!Send("end").ok() || !spark_->Wait(kSparkStarts).ok()) {
      left.push_back("the driver, which does not end");
      spark_->Kill(SIGTERM);
      (void)spark_->Wait(kSparkStarts);
    }
    spark_.reset();
    for (std::string& file : FilesOfCluster()) left.push_back(std::move(file));
    return left;
  }

 private:
  // ---- the driver -------------------------------------------------------------------------------

  absl::Status Send(const std::string& command) {
    const std::string line = absl::StrCat(command, "\n");
    if (::write(commands_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      return absl::ErrnoToStatus(errno, commands_path_);
    }
    return absl::OkStatus();
  }

  // What follows "chaos ok " of the reply, or the error that it has.
  absl::StatusOr<std::string> Ask(const std::string& command) {
    MILLRACE_RETURN_IF_ERROR(Send(command));
    MILLRACE_ASSIGN_OR_RETURN(const std::string line, spark_->WaitForLine(kReply, 2 * kPatience));
    absl::string_view reply = line;
    absl::ConsumePrefix(&reply, kReply);
    if (absl::ConsumePrefix(&reply, "error ")) return ErrorOf(reply);
    absl::ConsumePrefix(&reply, "ok");
    return std::string(absl::StripLeadingAsciiWhitespace(reply));
  }

  absl::StatusOr<std::vector<int64_t>> AskNumbers(const std::string& command, size_t count) {
    MILLRACE_ASSIGN_OR_RETURN(const std::string reply, Ask(command));
    MILLRACE_ASSIGN_OR_RETURN(std::vector<int64_t> numbers, Numbers(reply));
    if (numbers.size() != count) {
      return absl::InternalError(absl::StrCat("the driver replied to ", command, ": ", reply));
    }
    return numbers;
  }

  // ---- the cluster, as others see it
  // --------------------------------------------------------------

  // Spark's processes have Spark's folder for a home.
  [[nodiscard]] std::string Clusters() const { return JoinPath(folder_, ".millrace/clusters"); }

  void Watch() {
    absl::StatusOr<ClusterFile> file = absl::NotFoundError("");
    while (!stop_.WaitForNotificationWithTimeout(kLook)) {
      std::error_code error;
      for (const auto& entry : std::filesystem::directory_iterator(Clusters(), error)) {
        if (entry.path().extension() == ".json") file = ReadClusterFile(entry.path().string());
      }
      if (file.ok()) break;
    }
    if (!file.ok()) return;
    {
      MutexLock lock(&mu_);
      coordinator_ = static_cast<pid_t>(file->pid);
    }
    absl::StatusOr<std::unique_ptr<ClusterClient>> client =
        ClusterClient::Connect(ClusterClientOptionsFrom(*file));
    if (!client.ok()) return;
    auto watch = (*client)->Watch(
        {.interval = kLook},
        {.on_change = [this](const ClusterSnapshot& now) { OnChange(now); }, .on_state = nullptr});
    if (!watch.ok()) return;
    MutexLock lock(&mu_);
    client_ = *std::move(client);
    watch_ = *std::move(watch);
  }

  // What only the driver knows of a slot is found here: a node is its agent's child.
  void OnChange(const ClusterSnapshot& now) {
    for (SlotStatus slot : now.slots) {
      int64_t& agent = agents_[slot.executor_id];
      if (slot.node_pid != 0) {
        const std::optional<ProcessInfo> node = ReadProcess(static_cast<pid_t>(slot.node_pid));
        const std::optional<ProcessInfo> parent =
            node.has_value() ? ReadProcess(node->parent) : std::nullopt;
        // A node that has outlived its agent is somebody else's child.
        if (parent.has_value() && absl::StrContains(parent->command, "millrace-agent")) {
          agent = parent->pid;
        }
      }
      slot.agent_pid = agent;
      hearing_.on_slot(slot);
    }
  }

  void TellRestarts() {
    const std::string text = ReadFile(JoinPath(setting_.log_dir, "events.jsonl")).value_or("");
    for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      const absl::StatusOr<Json> event = ParseJson(line);
      if (!event.ok() || GetString(*event, "kind").value_or("") != "restart") continue;
      const std::string said = GetString(*event, "text").value_or("");
      // "worker:1 is started again in 20ms (restart 1 of 3): worker:1 (...) was killed by SIGKILL".
      const size_t end = said.find("): ");
      if (!absl::StrContains(said, " is started again in ") || end == std::string::npos) continue;
      const std::string failure = said.substr(end + 3);
      hearing_.on_restart(static_cast<int>(GetInt(*event, "executor_id").value_or(-1)),
                          failure.substr(0, failure.find('\n')), absl::StatusCode::kUnknown);
    }
  }

  // ---- what is left -----------------------------------------------------------------------------

  // Processes that are not Spark's.
  [[nodiscard]] std::vector<std::string> OfCluster() const {
    std::vector<std::string> found;
    const std::string marker = absl::StrCat("MILLRACE_TEST_ID=", EnvOr("MILLRACE_TEST_ID", ""));
    for (const ProcessInfo& process : FindProcesses(marker, ::getpid())) {
      // Whoever was its executor is gone, and the fixture, to which it fell, looks at nobody's end.
      if (process.state == 'Z' && process.parent == spark_->pid()) continue;
      // A zombie's is its name in brackets.
      if (absl::StrContains(process.command, "millrace-agent") ||
          absl::StrContains(process.command, "fault_node")) {
        found.push_back(absl::StrCat("process ", process.pid, " (", process.command, ")"));
      }
    }
    return found;
  }

  // What Millrace has made among Spark's files, and Spark does not remove for it.
  [[nodiscard]] std::vector<std::string> FilesOfCluster() const {
    std::vector<std::string> found;
    std::error_code error;
    std::filesystem::recursive_directory_iterator entry(folder_, error);
    for (; !error && entry != end(entry); entry.increment(error)) {
      const std::string path = entry->path().string();
      const std::string name = entry->path().filename().string();
      const bool cluster = entry->path().parent_path() == Clusters() && name != "ended";
      const bool temporary = entry->path().parent_path() == JoinPath(folder_, "tmp") &&
                             absl::StartsWith(name, "millrace");
      if (cluster || temporary) found.push_back(absl::StrCat("file ", path));
    }
    return found;
  }

  const Plan& plan_;
  const NodeSetting setting_;
  const std::string folder_;
  const std::string commands_path_;
  UniqueFd commands_;
  std::unique_ptr<ChildProcess> spark_;
  pid_t driver_ = 0;
  ClusterHearing hearing_;
  std::map<int, int64_t> agents_;  // pids by executor id; of the watch's thread
  Notification stop_;
  std::optional<Thread> watcher_;
  mutable Mutex mu_;
  pid_t coordinator_ ABSL_GUARDED_BY(mu_) = 0;
  std::unique_ptr<ClusterClient> client_ ABSL_GUARDED_BY(mu_);
  // The last member: its thread uses the others, but not mu_.
  std::unique_ptr<ClusterWatch> watch_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

std::unique_ptr<DrivenCluster> MakeSparkCluster(const Plan& plan, const NodeSetting& setting) {
  return std::make_unique<SparkCluster>(plan, setting);
}

}  // namespace millrace::chaos
