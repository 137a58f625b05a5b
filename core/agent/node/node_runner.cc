#include "core/agent/node/node_runner.h"

#include <algorithm>  // for std::min
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// After the process has ended: how often and how long its pipes and orphans are looked at again.
constexpr absl::Duration kWindUpRound = absl::Milliseconds(10);
constexpr int kMaxWindUpRounds = 50;
// A rate that no pipe reaches; keeps the arithmetic of bursts in bounds.
constexpr int64_t kMaxLogBytesPerSecond = int64_t{1} << 30;

v1::LogLines::Source ToProto(OutputCapture::Source source) {
  return source == OutputCapture::Source::kStdout ? v1::LogLines::SOURCE_STDOUT
                                                  : v1::LogLines::SOURCE_STDERR;
}

}  // namespace

NodeRunner::NodeRunner(EventLoop* loop, ChildReaper* reaper, Hooks hooks)
    : loop_(loop),
      reaper_(reaper),
      hooks_(std::move(hooks)),
      relay_(loop, {},
             [this](const v1::LogLines& lines) {
               v1::AgentMessage message;
               *message.mutable_log() = lines;
               return hooks_.send(std::move(message), /*droppable=*/true);
             }),
      requests_({.reply = [this](const Json& frame) { Push(frame); },
                 .send = hooks_.send,
                 .on_hello = [] {},
                 .on_ready = hooks_.on_endpoints,
                 .on_log = [this](absl::string_view level,
                                  absl::string_view message) { OnLogRequest(level, message); },
                 .on_release_port = hooks_.on_release_port,
                 .on_gpu_claim = hooks_.on_gpu_claim,
                 .on_gpu_release = hooks_.on_gpu_release,
                 .on_sample = [this](const v1::NodeSample& feed) { sampler_.OnFeed(feed); },
                 .on_step = [this](int64_t step) { sampler_.OnStep(step); },
                 .on_exit = [this](const absl::Status& status) { said_exit_ = status; }}),
      process_(loop, reaper,
               {.on_started =
                    [this] {
                      hooks_.on_running(process_.pid());
                      sampler_.Start(process_.pid(), attempt_, sample_interval_);
                    },
                .on_launch_failed =
                    [this](const absl::Status& status) {
                      capture_->Finish();
                      channel_->Close();
                      hooks_.on_launch_failed(status);
                    },
                .on_change = [this](const ExitStatus& status) { OnChange(status); }}),
      sampler_(loop, [this](const v1::NodeSample& sample) {
        v1::AgentMessage message;
        *message.mutable_sample() = sample;
        hooks_.send(std::move(message), /*droppable=*/true);
      }) {}

NodeRunner::~NodeRunner() {
  loop_->Cancel(&stopped_timer_);
  loop_->Cancel(&wind_up_timer_);
}

absl::Status NodeRunner::Launch(Options options) {
  stop_timeout_ = options.stop_timeout;
  sample_interval_ = options.sample_interval;
  requests_.set_sample_interval(sample_interval_);
  attempt_ = options.environment.registered.attempt();
  relay_.set_attempt(attempt_);
  const int64_t rate = options.environment.registered.node().log_bytes_per_second();
  if (rate > 0) relay_.set_rate(std::min(rate, kMaxLogBytesPerSecond));
  MILLRACE_ASSIGN_OR_RETURN(
      channel_, ControlChannel::Create(
                    loop_, {.on_frame = [this](const Json& frame) { requests_.HandleFrame(frame); },
                            .on_closed = [this] { requests_.Forget(); }}));
  UniqueFd node_end = channel_->TakeNodeEnd();

  NodeProcess::Options process{.program = options.program};
  process.stdin_fd = options.stdin_fd;
  process.inherited_fds.push_back(node_end.get());
  options.environment.control_fd = NodeProcess::kFirstInheritedFd;
  if (options.port_fd >= 0) {
    process.inherited_fds.push_back(options.port_fd);
    options.environment.port_fd = NodeProcess::kFirstInheritedFd + 1;
  }
  MILLRACE_ASSIGN_OR_RETURN(NodeEnvironment environment, MakeNodeEnvironment(options.environment));
  MILLRACE_RETURN_IF_ERROR(
      WriteFileAtomic(options.environment.context_path, environment.context_json, 0600));

  process.argv.push_back(options.program);
  for (std::string& arg : options.args) {
    if (arg.find('\0') != std::string::npos) {
      return absl::InvalidArgumentError("an argument of the node program holds a zero byte");
    }
    process.argv.push_back(std::move(arg));
  }
  process.env = std::move(environment.variables);
  process.working_dir = options.environment.working_dir;

  capture_ = std::make_unique<OutputCapture>(
      loop_, options.log_path,
      OutputCapture::Callbacks{
          .on_line = [this](OutputCapture::Source source,
                            std::string line) { OnLine(source, std::move(line)); },
          .on_bytes =
              hooks_.on_bytes == nullptr
                  ? std::function<void(OutputCapture::Source, absl::string_view)>()
                  : [this](OutputCapture::Source source,
                           absl::string_view bytes) { hooks_.on_bytes(ToProto(source), bytes); },
          .on_warning =
              [this](const std::string& text) {
                MILLRACE_LOG(WARNING) << text;
                relay_.Add(v1::LogLines::SOURCE_AGENT, text);
              }},
      std::move(options.log_counts));
  if (!environment.left_out.empty()) {
    relay_.Add(v1::LogLines::SOURCE_AGENT,
               absl::StrCat(absl::StrJoin(environment.left_out, " and "),
                            " not set: over 96 KiB for this cluster; read the file that "
                            "MILLRACE_CONTEXT_FILE names"));
  }
  MILLRACE_RETURN_IF_ERROR(process_.Launch(process));
  return capture_->Start(process_.TakeStdout(), process_.TakeStderr());
}

void NodeRunner::Push(const Json& frame) {
  if (channel_ != nullptr) channel_->Send(frame);
}

void NodeRunner::Stop(absl::string_view reason, absl::Duration grace) {
  const bool cooperative = requests_.said_hello() && !channel_->closed();
  if (cooperative) Push(Json{{"push", "stop"}, {"reason", std::string(reason)}});
  process_.Stop(grace, /*sigterm_now=*/!cooperative);
}

void NodeRunner::SetPaused(bool paused) {
  if (paused_ == paused) return;
  paused_ = paused;
  loop_->Cancel(&stopped_timer_);
  process_.SetPaused(paused);
}

std::vector<std::string> NodeRunner::StderrTail() const {
  return capture_ == nullptr ? std::vector<std::string>() : capture_->StderrTail();
}

void NodeRunner::OnChange(const ExitStatus& status) {
  switch (status.kind) {
    case ExitStatus::Kind::kStopped: {
      if (paused_) break;
      hooks_.on_stopped(status.signal);
      loop_->Cancel(&stopped_timer_);
      stopped_timer_ = loop_->After(stop_timeout_, [this, signal = status.signal] {
        killed_as_stopped_by_ = signal;
        process_.Kill();
      });
      break;
    }
    case ExitStatus::Kind::kContinued:
      loop_->Cancel(&stopped_timer_);
      hooks_.on_stopped(0);
      break;
    default:
      OnEnded(status);
  }
}

void NodeRunner::OnEnded(const ExitStatus& status) {
  loop_->Cancel(&stopped_timer_);
  exit_ = status;
  // What it wrote before it died; its last words may be `exit`.
  channel_->Drain();
  channel_->Close();
  sampler_.Finish();
  capture_->Release();
  // After this callback: the process is still a zombie, and would count as an orphan.
  wind_up_timer_ = loop_->After(absl::ZeroDuration(), [this] { WindUp(); });
}

// The process group has been killed; here come its orphans that had left the group, and the rest of
// the pipes, which such orphans may hold open.
void NodeRunner::WindUp() {
  const bool orphans = reaper_->KillOrphans() > 0;
  if ((orphans || !capture_->ended()) && ++wind_up_rounds_ < kMaxWindUpRounds) {
    wind_up_timer_ = loop_->After(kWindUpRound, [this] { WindUp(); });
    return;
  }
  capture_->Finish();
  relay_.Flush();
  if (hooks_.on_output_end) hooks_.on_output_end();
  hooks_.on_ended(*exit_);
}

void NodeRunner::OnLine(OutputCapture::Source source, std::string line) {
  relay_.Add(ToProto(source), std::move(line));
}

void NodeRunner::OnLogRequest(absl::string_view level, absl::string_view message) {
  capture_->AddLine(absl::StrCat("[", level, "] ", message));
}

}  // namespace millrace
