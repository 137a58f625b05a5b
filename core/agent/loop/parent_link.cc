#include "core/agent/loop/parent_link.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// poll() promises room for this much in a pipe, so that a blocking descriptor does not block.
constexpr size_t kWriteBytes = 4096;
constexpr size_t kReadBytes = size_t{64} << 10;

OrderedJson Ordered(const Json& value) { return OrderedJson(value); }

OrderedJson ErrorJson(const absl::Status& status) {
  return {{"code", absl::StatusCodeToString(status.code())},
          {"message", std::string(status.message())}};
}

}  // namespace

ParentLink::ParentLink(EventLoop* loop, int in_fd, int out_fd, Callbacks callbacks)
    : loop_(loop), in_fd_(in_fd), out_fd_(out_fd), callbacks_(std::move(callbacks)) {}

ParentLink::~ParentLink() {
  if (watching_in_) loop_->Unwatch(in_fd_);
  if (watching_out_) loop_->Unwatch(out_fd_);
}

void ParentLink::Start() {
  const absl::Status watched = loop_->Watch(in_fd_, EPOLLIN, [this](uint32_t) { ReadSome(); });
  watching_in_ = watched.ok();
  if (watched.ok()) return;
  // A regular file or /dev/null: it is always readable, and its end comes at once.
  loop_->Defer([this] {
    while (!ended_) ReadSome();
  });
}

void ParentLink::ReadSome() {
  std::vector<char> buffer(kReadBytes);
  const ssize_t got = read(in_fd_, buffer.data(), buffer.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    End(absl::OkStatus());
    return;
  }
  lines_.Append({buffer.data(), static_cast<size_t>(got)});
  while (!ended_) {
    const absl::StatusOr<std::optional<absl::string_view>> line = lines_.Next();
    if (!line.ok()) {
      End(line.status());
      return;
    }
    if (!line->has_value()) break;
    if (!(*line)->empty()) HandleLine(**line);
  }
  UpdateReading();
}

void ParentLink::HandleLine(absl::string_view line) {
  const absl::StatusOr<Json> request = ParseJson(line);
  if (!request.ok() || !request->is_object()) {
    Reply(Json(), request.ok() ? absl::InvalidArgumentError("a request must be a JSON object")
                               : request.status());
    return;
  }
  Json id;
  if (const auto found = request->find("id");
      found != request->end() && (found->is_number_integer() || found->is_string())) {
    id = *found;
  }
  const absl::Status status = [&]() -> absl::Status {
    if (id.is_null()) {
      return absl::InvalidArgumentError("field \"id\" must be an integer or a string");
    }
    MILLRACE_ASSIGN_OR_RETURN(const std::string method, GetString(*request, "method"));
    static const Json kNoParams = Json::object();
    const Json* params = &kNoParams;
    if (request->contains("params")) {
      MILLRACE_ASSIGN_OR_RETURN(params, GetObject(*request, "params"));
    }
    callbacks_.on_request(id, method, *params);
    return absl::OkStatus();
  }();
  if (!status.ok()) Reply(id, status);
}

void ParentLink::Reply(const Json& id, const absl::StatusOr<Json>& outcome) {
  OrderedJson line = {{"id", Ordered(id)}};
  if (outcome.ok()) {
    line["result"] = Ordered(*outcome);
  } else {
    line["error"] = ErrorJson(outcome.status());
  }
  WriteLine(line);
}

void ParentLink::Event(absl::string_view event, const OrderedJson& members) {
  OrderedJson line = {{"event", std::string(event)},
                      {"seq", next_seq_++},
                      {"time_ms", absl::ToUnixMillis(RealClock()->Now())}};
  for (const auto& [name, value] : members.items()) line[name] = value;
  WriteLine(line);
}

void ParentLink::WriteLine(const OrderedJson& line) {
  if (out_broken_) return;
  out_ += DumpJson(line);
  out_ += '\n';
  WriteSome();
  UpdateReading();
}

void ParentLink::WriteSome() {
  size_t start = 0;
  while (start < out_.size() && !out_broken_) {
    pollfd ready{.fd = out_fd_, .events = POLLOUT, .revents = 0};
    if (poll(&ready, 1, 0) <= 0) break;
    const ssize_t written =
        write(out_fd_, out_.data() + start, std::min(out_.size() - start, kWriteBytes));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) break;
    if (written < 0) {
      // A parent that only closed this pipe goes on; one that is gone is noticed by the end of
      // stdin.
      MILLRACE_LOG(WARNING) << "the parent does not read events any more: errno " << errno;
      out_broken_ = true;
      break;
    }
    start += static_cast<size_t>(written);
  }
  out_.erase(0, out_broken_ ? std::string::npos : start);
  if (!out_.empty() && !watching_out_) {
    watching_out_ = loop_
                        ->Watch(out_fd_, EPOLLOUT,
                                [this](uint32_t) {
                                  WriteSome();
                                  UpdateReading();
                                })
                        .ok();
  } else if (out_.empty() && watching_out_) {
    loop_->Unwatch(out_fd_);
    watching_out_ = false;
  }
}

void ParentLink::UpdateReading() {
  if (!watching_in_) return;
  loop_->SetEvents(in_fd_, out_.size() > kPauseReadingBytes ? 0u : uint32_t{EPOLLIN});
}

void ParentLink::Flush(absl::Duration timeout) {
  const absl::Duration deadline = RealClock()->SteadyNow() + timeout;
  while (!out_.empty()) {
    const absl::Duration left = deadline - RealClock()->SteadyNow();
    if (left <= absl::ZeroDuration()) return;
    pollfd ready{.fd = out_fd_, .events = POLLOUT, .revents = 0};
    poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
    WriteSome();
  }
}

void ParentLink::End(const absl::Status& status) {
  if (std::exchange(ended_, true)) return;
  if (watching_in_) loop_->Unwatch(in_fd_);
  watching_in_ = false;
  callbacks_.on_end(status);
}

}  // namespace millrace
