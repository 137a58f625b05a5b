#include "core/coordinator/view/watch_hub.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/deadline.h"
#include "core/coordinator/view/wire_conversion.h"

namespace millrace {
namespace {

// How long a reader may take for what it is being sent when the cluster ends.
constexpr absl::Duration kLastWait = absl::Milliseconds(500);

}  // namespace

WatchHub::WatchHub(ViewStore* view, Clock* clock) : view_(view), clock_(clock) {
  thread_ = Thread("coord-watch", [this] { Run(); });
}

uint64_t WatchHub::NewId() {
  MutexLock lock(&mu_);
  return next_id_++;
}

absl::Status WatchHub::AddWatch(uint64_t id, std::shared_ptr<ViewStream> stream,
                                const ViewCursor& cursor, absl::Duration interval) {
  Reader reader;
  reader.stream = std::move(stream);
  reader.cursor = cursor;
  reader.interval = interval;
  return Add(id, std::move(reader));
}

absl::Status WatchHub::AddLogs(uint64_t id, std::shared_ptr<ViewStream> stream, LogCursor cursor) {
  Reader reader;
  reader.stream = std::move(stream);
  reader.cursor = std::move(cursor);
  reader.interval = absl::ZeroDuration();
  return Add(id, std::move(reader));
}

absl::Status WatchHub::Add(uint64_t id, Reader reader) {
  reader.due = clock_->SteadyNow();
  // A reader that resumes hears at once that it has.
  reader.heartbeat = reader.due;
  {
    MutexLock lock(&mu_);
    if (stopping_) return absl::CancelledError("the coordinator shuts down");
    if (readers_.size() >= kMaxReaders) {
      return absl::ResourceExhaustedError(
          absl::StrCat("this cluster has ", kMaxReaders, " readers already; end some"));
    }
    readers_[id] = std::make_shared<Reader>(std::move(reader));
  }
  view_->Wake();
  return absl::OkStatus();
}

void WatchHub::Written(uint64_t id) {
  {
    MutexLock lock(&mu_);
    const auto it = readers_.find(id);
    if (it == readers_.end()) return;
    it->second->writing = false;
  }
  view_->Wake();
}

void WatchHub::Remove(uint64_t id) {
  MutexLock lock(&mu_);
  readers_.erase(id);
}

void WatchHub::Stop() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
  }
  view_->Wake();
  MutexLock lock(&join_mu_);
  thread_.Join();
}

void WatchHub::Serve(uint64_t id, absl::Duration now, bool last, uint32_t* news,
                     absl::Duration* until) {
  std::shared_ptr<Reader> reader;
  {
    MutexLock lock(&mu_);
    const auto it = readers_.find(id);
    if (it == readers_.end()) return;
    reader = it->second;
    if (reader->writing) return;  // Written() wakes the thread
    reader->writing = true;       // by this thread, if there is something to write
  }
  const auto idle = [&] {
    MutexLock lock(&mu_);
    reader->writing = false;
  };
  if (auto* logs = std::get_if<LogCursor>(&reader->cursor); logs != nullptr) {
    std::optional<v1::LogBatch> batch;
    if (view_->HasLogs(*logs)) batch = view_->NextLogs(logs);
    if (!batch.has_value() && logs->follow && now >= reader->heartbeat) batch.emplace();
    if (batch.has_value()) {
      reader->heartbeat = now + kHeartbeat;
      reader->stream->Write(SerializeMessage(*batch));
      return;
    }
    idle();
    if (!logs->follow) {
      Remove(id);
      reader->stream->End(absl::OkStatus());
      return;
    }
    *until = std::min(*until, reader->heartbeat);
    *news |= ViewStore::kLogNews;
    return;
  }
  ViewCursor& cursor = std::get<ViewCursor>(reader->cursor);
  if (!last && now < reader->due) {
    *until = std::min(*until, reader->due);
    idle();
    return;
  }
  if (!last && now < reader->heartbeat && !view_->HasNews(cursor)) {
    *until = std::min(*until, reader->heartbeat);
    *news |= ViewStore::NewsOf(cursor);
    idle();
    return;
  }
  reader->due = now + reader->interval;
  reader->heartbeat = now + std::max(kHeartbeat, reader->interval);
  reader->stream->Write(SerializeMessage(view_->Next(&cursor)));
}

std::vector<uint64_t> WatchHub::Ids(bool* stopping, bool* writing) {
  MutexLock lock(&mu_);
  *stopping = stopping_;
  *writing = false;
  std::vector<uint64_t> ids;
  for (const auto& [id, reader] : readers_) {
    ids.push_back(id);
    *writing = *writing || reader->writing;
  }
  return ids;
}

void WatchHub::Run() {
  bool stopping = false;
  bool writing = false;
  for (;;) {
    // What changes after this wakes the wait below, whether a reader was served before or after.
    const uint64_t seq = view_->seq();
    const std::vector<uint64_t> ids = Ids(&stopping, &writing);
    if (stopping) break;
    const absl::Duration now = clock_->SteadyNow();
    absl::Duration until = now + kHeartbeat;
    uint32_t news = 0;
    for (const uint64_t id : ids) Serve(id, now, /*last=*/false, &news, &until);
    view_->Wait(news, seq, std::max(until - now, absl::Milliseconds(1)));
  }
  // Readers that do read take the update that is under way, and then get a last one.
  const Deadline deadline(kLastWait);
  std::vector<uint64_t> ids = Ids(&stopping, &writing);
  while (writing && !deadline.Passed()) {
    view_->Wait(0, UINT64_MAX, deadline.Left());
    ids = Ids(&stopping, &writing);
  }
  uint32_t news = 0;
  absl::Duration until;
  for (const uint64_t id : ids) Serve(id, clock_->SteadyNow(), /*last=*/true, &news, &until);
  std::map<uint64_t, std::shared_ptr<Reader>> readers;
  {
    MutexLock lock(&mu_);
    readers.swap(readers_);
  }
  // Each after the message that is under way, if there is one.
  for (const auto& [id, reader] : readers) reader->stream->End(absl::OkStatus());
}

}  // namespace millrace
