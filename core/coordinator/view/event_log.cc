#include "core/coordinator/view/event_log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/safe_open.h"
#include "core/proto/time_proto.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// As a node's log.
constexpr mode_t kMode = 0640;

constexpr absl::string_view SeverityName(v1::Event::Severity severity) {
  switch (severity) {
    case v1::Event::SEVERITY_WARNING:
      return "warning";
    case v1::Event::SEVERITY_ERROR:
      return "error";
    default:
      return "info";
  }
}

}  // namespace

std::string EventToJson(const v1::Event& event, absl::string_view cluster_id) {
  OrderedJson json;
  json["number"] = event.number();
  json["time"] =
      absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", TimeFromProto(event.time()), absl::UTCTimeZone());
  json["cluster_id"] = std::string(cluster_id);
  json["kind"] = event.kind();
  json["severity"] = std::string(SeverityName(event.severity()));
  if (event.executor_id() >= 0) {
    json["executor_id"] = event.executor_id();
    json["attempt"] = event.attempt();
  }
  if (event.first_cause()) json["first_cause"] = true;
  if (event.folded()) json["folded"] = true;
  json["text"] = event.text();
  return DumpJson(json);
}

absl::StatusOr<std::unique_ptr<EventLog>> EventLog::Open(Options options) {
  std::error_code error;
  std::filesystem::create_directories(options.folder, error);  // open() says what is wrong
  std::string path = JoinPath(options.folder, "events.jsonl");
  MILLRACE_ASSIGN_OR_RETURN(UniqueFd file, OpenForAppend(path, kMode));
  struct stat info {};
  if (fstat(file.get(), &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot look at ", path));
  }
  return std::unique_ptr<EventLog>(
      new EventLog(std::move(options), std::move(path), std::move(file), info.st_size));
}

EventLog::EventLog(Options options, std::string path, UniqueFd file, int64_t size)
    : options_(std::move(options)), path_(std::move(path)), file_(std::move(file)), size_(size) {
  thread_ = Thread("coord-events", [this] { Run(); });
}

void EventLog::Append(std::shared_ptr<const v1::Event> event) {
  MutexLock lock(&mu_);
  if (stopping_) return;
  if (waiting_.size() >= options_.max_waiting) {
    ++lost_;
    return;
  }
  waiting_.push_back(std::move(event));
  arrived_.Signal();
}

void EventLog::Stop() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    arrived_.Signal();
  }
  MutexLock lock(&join_mu_);
  thread_.Join();
}

uint64_t EventLog::lost() const {
  MutexLock lock(&mu_);
  return lost_;
}

void EventLog::Run() {
  for (;;) {
    std::deque<std::shared_ptr<const v1::Event>> batch;
    uint64_t lost = 0;
    {
      MutexLock lock(&mu_);
      while (waiting_.empty() && !stopping_) arrived_.Wait(&mu_);
      if (waiting_.empty()) return;
      batch.swap(waiting_);
      lost = lost_;
    }
    if (lost > told_lost_) {
      Lost(0, "the disk is slow");
      v1::Event note;
      note.set_kind("cluster");
      note.set_severity(v1::Event::SEVERITY_WARNING);
      note.set_executor_id(-1);
      note.set_number(batch.front()->number());
      *note.mutable_time() = TimeToProto(absl::Now());
      note.set_text(absl::StrCat(lost - told_lost_, " events before this one were not written"));
      told_lost_ = lost;
      Write(EventToJson(note, options_.cluster_id));
    }
    for (const auto& event : batch) Write(EventToJson(*event, options_.cluster_id));
  }
}

void EventLog::Write(const std::string& line) {
  // A line that could not be finished is ended first, so that the next one is whole.
  const std::string text = absl::StrCat(torn_ ? "\n" : "", line, "\n");
  if (size_ + static_cast<int64_t>(text.size()) > options_.max_file_bytes && size_ > 0) Rotate();
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = write(file_.get(), text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      if (done > 0) torn_ = true;
      Lost(1, absl::ErrnoToStatus(errno, "").message());
      return;
    }
    done += static_cast<size_t>(written);
    size_ += written;
  }
  torn_ = false;
}

void EventLog::Rotate() {
  if (rename(path_.c_str(), absl::StrCat(path_, ".1").c_str()) != 0) return;
  absl::StatusOr<UniqueFd> file = OpenForAppend(path_, kMode);
  if (!file.ok()) return;  // goes on in the old one
  file_ = *std::move(file);
  size_ = 0;
  torn_ = false;
}

void EventLog::Lost(uint64_t count, absl::string_view why) {
  {
    MutexLock lock(&mu_);
    lost_ += count;
  }
  if (warned_) return;
  warned_ = true;
  MILLRACE_LOG(WARNING) << "events are missing from " << path_ << ": " << why
                        << "; the cluster goes on. This is said once";
}

}  // namespace millrace
