#include "core/agent/gpu/gpu_monitor.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/agent/node/node_process.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/gpu/gpu_helper.h"
#include "core/process/exit_status.h"
#include "core/process/process.h"

namespace millrace {
namespace {

constexpr size_t kMaxSmiBytes = size_t{1} << 20;

std::string Lookup(const std::vector<std::string>& environment, absl::string_view name) {
  for (const std::string& entry : environment) {
    if (absl::StartsWith(entry, absl::StrCat(name, "="))) return entry.substr(name.size() + 1);
  }
  return "";
}

}  // namespace

GpuMonitor::GpuMonitor(EventLoop* loop, ChildReaper* reaper, Options options, UpdateFn on_update)
    : loop_(loop),
      reaper_(reaper),
      options_(std::move(options)),
      on_update_(std::move(on_update)),
      backoff_(options_.min_backoff) {}

GpuMonitor::~GpuMonitor() {
  loop_->Cancel(&timer_);
  loop_->Cancel(&retry_timer_);
}

void GpuMonitor::Start() {
  if (std::exchange(started_, true)) return;
  StartHelper();
}

void GpuMonitor::Rearm(absl::Duration delay, void (GpuMonitor::*then)()) {
  loop_->Cancel(&timer_);
  timer_ = loop_->After(delay, [this, then] { (this->*then)(); });
}

// ---- millrace-gpu -------------------------------------------------------------------------------

void GpuMonitor::StartHelper() {
  loop_->Cancel(&timer_);
  process_.reset();
  lines_ = std::make_unique<LineReader>(kMaxGpuLineBytes);
  ++helper_;
  nvml_problem_.clear();
  stuck_.clear();
  if (options_.helper.empty()) {
    absl::StatusOr<std::string> found = FindGpuHelper(
        Lookup(options_.environment, kGpuHelperVariable), SelfExecutablePath().value_or(""));
    if (!found.ok()) {
      nvml_problem_ = std::string(found.status().message());
      StartSmi();
      return;
    }
    options_.helper = *std::move(found);
  }
  HelperProcess::Options helper{.program = options_.helper, .environment = options_.environment};
  helper.args.push_back(
      absl::StrCat("--interval-ms=", absl::ToInt64Milliseconds(options_.interval)));
  helper.args.push_back(
      absl::StrCat("--stuck-ms=", absl::ToInt64Milliseconds(options_.stuck_after)));
  for (const int gpu : skipped_) helper.args.push_back(absl::StrCat("--skip-gpu=", gpu));
  auto process =
      HelperProcess::Start(loop_, reaper_, helper,
                           {.on_output = [this](absl::string_view bytes) { OnHelperOutput(bytes); },
                            .on_end = [this](const ExitStatus& status) { OnHelperEnd(status); }});
  if (!process.ok()) {
    GiveUp(absl::StrCat("millrace-gpu cannot be run: ", process.status().message()));
    return;
  }
  process_ = *std::move(process);
  Rearm(options_.start_timeout, &GpuMonitor::OnLate);
}

void GpuMonitor::OnHelperOutput(absl::string_view bytes) {
  lines_->Append(bytes);
  const int helper = helper_;
  for (;;) {
    const auto line = lines_->Next();
    if (!line.ok()) {
      GiveUp(absl::StrCat("millrace-gpu wrote a line of over ", kMaxGpuLineBytes, " bytes"));
      return;
    }
    if (!line->has_value()) return;
    OnHelperLine(std::string(**line));
    if (helper_ != helper) return;  // another one was started
  }
}

void GpuMonitor::OnHelperLine(absl::string_view text) {
  absl::StatusOr<GpuLine> line = ParseGpuLine(text);
  if (!line.ok()) {
    MILLRACE_LOG(WARNING) << "a line of millrace-gpu is ignored: " << line.status().message();
    return;
  }
  switch (line->kind) {
    case GpuLine::Kind::kReady:
      driver_version_ = line->snapshot.driver_version;
      nvml_version_ = line->snapshot.nvml_version;
      Rearm(options_.late_after, &GpuMonitor::OnLate);
      break;
    case GpuLine::Kind::kSample:
      stuck_.clear();
      backoff_ = options_.min_backoff;
      line->snapshot.driver_version = driver_version_;
      line->snapshot.nvml_version = nvml_version_;
      if (line->snapshot.time == absl::InfinitePast()) line->snapshot.time = absl::Now();
      Rearm(options_.late_after, &GpuMonitor::OnLate);
      Publish(std::move(line->snapshot));
      break;
    case GpuLine::Kind::kStuck:
      OnStuck(*line);
      break;
    case GpuLine::Kind::kError:
      nvml_problem_ = line->text.empty() ? "NVML cannot be used" : line->text;
      break;
  }
}

void GpuMonitor::OnStuck(const GpuLine& line) {
  stuck_ = absl::StrCat("the GPU driver does not return from ", line.text);
  if (line.gpu < 0 || skipped_.contains(line.gpu)) return;  // the timer decides
  MILLRACE_LOG(WARNING) << stuck_ << " of GPU " << line.gpu << "; it is left out for a while";
  skipped_.insert(line.gpu);
  ++restarts_;
  if (retry_timer_ == EventLoop::kNoTimer) {
    retry_timer_ = loop_->After(options_.retry, [this] {
      retry_timer_ = EventLoop::kNoTimer;
      skipped_.clear();
      // What else runs (nvidia-smi, a backoff) comes back to the helper by itself.
      if (process_ != nullptr && nvml_problem_.empty()) StartHelper();
    });
  }
  StartHelper();
}

void GpuMonitor::OnHelperEnd(const ExitStatus& status) {
  process_.reset();
  if (!nvml_problem_.empty()) {
    StartSmi();
  } else {
    GiveUp(absl::StrCat("millrace-gpu ended with ", DescribeExit(status)));
  }
}

void GpuMonitor::OnLate() {
  GiveUp(!stuck_.empty() ? stuck_
                         : absl::StrCat("millrace-gpu wrote nothing for ",
                                        absl::FormatDuration(options_.late_after)));
}

void GpuMonitor::GiveUp(const std::string& why) {
  ++restarts_;
  process_.reset();
  MILLRACE_LOG(WARNING) << why << "; trying again in " << backoff_;
  Rearm(backoff_, &GpuMonitor::StartHelper);
  backoff_ = std::min(2 * backoff_, options_.max_backoff);
  SetUnknown(why);
}

// ---- nvidia-smi ---------------------------------------------------------------------------------

void GpuMonitor::StartSmi() {
  loop_->Cancel(&timer_);
  process_.reset();
  smi_output_.clear();
  const absl::StatusOr<std::string> program =
      ResolveProgram(options_.nvidia_smi, "/", Lookup(options_.environment, "PATH"));
  if (!program.ok() || access(program->c_str(), X_OK) != 0) {
    SmiFailed(absl::StrCat("no ", options_.nvidia_smi, " either"));
    return;
  }
  auto process = HelperProcess::Start(
      loop_, reaper_,
      {.program = *program,
       .args = {std::begin(kNvidiaSmiArguments), std::end(kNvidiaSmiArguments)},
       .environment = options_.environment},
      {.on_output =
           [this](absl::string_view bytes) {
             if (smi_output_.size() + bytes.size() <= kMaxSmiBytes) {
               absl::StrAppend(&smi_output_, bytes);
             }
           },
       .on_end = [this](const ExitStatus& status) { OnSmiEnd(status); }});
  if (!process.ok()) {
    SmiFailed(absl::StrCat("nvidia-smi cannot be run: ", process.status().message()));
    return;
  }
  process_ = *std::move(process);
  loop_->Cancel(&timer_);
  timer_ = loop_->After(options_.smi_timeout, [this] {
    ++restarts_;
    SmiFailed(
        absl::StrCat("nvidia-smi did not end within ", absl::FormatDuration(options_.smi_timeout)));
  });
}

void GpuMonitor::OnSmiEnd(const ExitStatus& status) {
  process_.reset();
  absl::StatusOr<GpuSnapshot> snapshot = ParseNvidiaSmi(smi_output_, absl::Now());
  if (!status.ok()) {
    const std::string said = FirstLine(smi_output_);
    SmiFailed(absl::StrCat("nvidia-smi ended with ", DescribeExit(status), said.empty() ? "" : ": ",
                           Ellipsize(EscapeControls(said), 200)));
  } else if (!snapshot.ok()) {
    SmiFailed(std::string(snapshot.status().message()));
  } else {
    backoff_ = options_.min_backoff;
    Rearm(options_.smi_interval, &GpuMonitor::StartSmi);
    Publish(*std::move(snapshot));
  }
}

void GpuMonitor::SmiFailed(const std::string& why) {
  process_.reset();
  Rearm(options_.retry, &GpuMonitor::StartHelper);
  SetUnknown(absl::StrCat(nvml_problem_, "; ", why));
}

// ---- results ------------------------------------------------------------------------------------

void GpuMonitor::SetUnknown(std::string why) {
  settled_ = true;
  snapshot_.unknown = std::move(why);
  on_update_(snapshot_);
}

void GpuMonitor::Publish(GpuSnapshot snapshot) {
  settled_ = true;
  snapshot_ = std::move(snapshot);
  on_update_(snapshot_);
}

}  // namespace millrace
