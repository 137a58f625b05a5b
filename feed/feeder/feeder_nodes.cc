#include "feed/feeder/feeder_nodes.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// The coordinator is asked again after this long, then twice as long, ...
constexpr absl::Duration kFirstPause = absl::Milliseconds(10);
constexpr absl::Duration kLongestPause = absl::Milliseconds(250);
// A node whose program has ended is exiting, or is another process than the one meant: the
// coordinator knows soon.
constexpr absl::Duration kEndGrace = absl::Seconds(5);
// Nothing listens at the node's endpoint: most likely it has died, and its agent is about to say
// so.
constexpr absl::Duration kUnreachableGrace = absl::Seconds(1);
// Until a node gets more than it seems to want. A node may take as long to acknowledge.
constexpr absl::Duration kPatience = absl::Milliseconds(100);
constexpr int64_t kBeyond = 4;  // times as much

// What a node gets ahead because it has run dry, in partitions.
constexpr int64_t kMostDry = 64;

}  // namespace

FeederNodes::FeederNodes(NodeDirectory* directory, std::string queue, absl::Duration feed_timeout)
    : directory_(directory), queue_(std::move(queue)), feed_timeout_(feed_timeout) {
  MutexLock lock(&mu_);
  for (const std::string& name : directory_->fed_nodes()) {
    if (nodes_.try_emplace(name).second) names_.push_back(name);
  }
}

absl::Status FeederNodes::FailedError(const std::string& node) {
  const absl::Status cause = directory_->Cause(node);
  if (!cause.ok()) return Annotate(cause, absl::StrCat(node, " failed"));
  return absl::UnknownError(absl::StrCat(node, " failed; its log may say why"));
}

void FeederNodes::StopReading(const std::string& node) {
  MutexLock lock(&mu_);
  nodes_[node].reading = false;
  changed_cv_.SignalAll();
}

bool FeederNodes::any_reading() const {
  MutexLock lock(&mu_);
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [](const auto& item) { return item.second.reading; });
}

void FeederNodes::Cancel(const absl::Status& status) {
  MILLRACE_CHECK(!status.ok());
  MutexLock lock(&mu_);
  if (cancelled_.ok()) cancelled_ = status;
  cancelled_cv_.SignalAll();
  changed_cv_.SignalAll();
}

absl::Status FeederNodes::Pause(absl::Duration pause) {
  MutexLock lock(&mu_);
  const absl::Duration until = RealClock()->SteadyNow() + pause;
  while (cancelled_.ok()) {
    const absl::Duration left = until - RealClock()->SteadyNow();
    if (left <= absl::ZeroDuration()) return absl::OkStatus();
    cancelled_cv_.WaitWithTimeout(&mu_, left);
  }
  return cancelled_;
}

std::shared_ptr<FeedProgress> FeederNodes::Progress(const FeedTarget& target) {
  MutexLock lock(&mu_);
  Node& node = nodes_[target.node];
  if (node.progress == nullptr || node.nonce != target.nonce) {
    node.nonce = target.nonce;
    node.progress = std::make_shared<FeedProgress>();
  }
  return node.progress;
}

// ------------------------------------------------------------------------------------- acquiring

NodeLoad FeederNodes::LoadOf(const Node& node) const {
  const int64_t in_hand = node.active + node.outstanding;
  const auto unseen =
      static_cast<double>(std::max<int64_t>(0, in_hand - node.reading_now.partitions));
  return {.reading = node.reading,
          .partitions = in_hand,
          .rows = node.reading_now.rows + unseen * partition_rows_,
          .pace = node.pace.RowsPerSecond(),
          .silent = node.pace.silent(),
          .allowance = node.allowance,
          .assigned = node.assigned};
}

void FeederNodes::Observe(const std::map<std::string, NodeReading>& readings,
                          double partition_rows) {
  const absl::Duration now = RealClock()->SteadyNow();
  MutexLock lock(&mu_);
  partition_rows_ = partition_rows;
  for (auto& [name, node] : nodes_) {
    const auto reading = readings.find(name);
    node.reading_now = reading == readings.end() ? NodeReading() : reading->second;
    node.pace.Update(now, node.reading_now.acked_rows, node.reading_now.rows > 0);
  }
  changed_cv_.SignalAll();
}

std::vector<NodeLoad> FeederNodes::loads() const {
  MutexLock lock(&mu_);
  std::vector<NodeLoad> loads;
  for (const std::string& name : names_) loads.push_back(LoadOf(nodes_.at(name)));
  return loads;
}

std::optional<std::string> FeederNodes::ChooseByPace(By by, std::optional<double> rows,
                                                     const std::set<std::string>& tried) {
  std::vector<std::string> names;
  std::vector<NodeLoad> loads;
  for (const std::string& name : names_) {
    if (tried.count(name) > 0) continue;
    names.push_back(name);
    loads.push_back(LoadOf(nodes_[name]));
  }
  const std::optional<size_t> best =
      ChooseNode(loads, rows.value_or(partition_rows_), by == By::kPace);
  if (!best.has_value()) return std::nullopt;
  Node& node = nodes_[names[*best]];
  if (by == By::kPaceBeyond)
    node.allowance = kBeyond * std::max(node.allowance, loads[*best].partitions);
  return names[*best];
}

absl::StatusOr<FeederNodes::By> FeederNodes::WaitForWish() {
  MutexLock lock(&mu_);
  const absl::Duration until = RealClock()->SteadyNow() + kPatience;
  while (cancelled_.ok()) {
    bool reading = false;
    for (const auto& [name, node] : nodes_) {
      if (node.reading && WantsMore(LoadOf(node))) return By::kPace;
      reading = reading || node.reading;
    }
    const absl::Duration left = until - RealClock()->SteadyNow();
    if (!reading || left <= absl::ZeroDuration()) return By::kPaceBeyond;
    changed_cv_.WaitWithTimeout(&mu_, left);
  }
  return cancelled_;
}

std::optional<std::string> FeederNodes::Choose(By by, std::optional<double> rows,
                                               const std::set<std::string>& tried) {
  if (by != By::kCount) return ChooseByPace(by, rows, tried);
  const Node* best = nullptr;
  std::string best_name;
  for (const auto& [name, node] : nodes_) {
    if (!node.reading || tried.count(name) > 0) continue;
    if (best != nullptr && std::tie(node.active, node.outstanding, node.assigned) >=
                               std::tie(best->active, best->outstanding, best->assigned)) {
      continue;
    }
    best = &node;
    best_name = name;
  }
  if (best == nullptr) return std::nullopt;
  return best_name;
}

absl::StatusOr<std::optional<FeedTarget>> FeederNodes::TryAcquire(By by,
                                                                  std::optional<double> rows) {
  std::set<std::string> tried;
  std::string restarting;
  while (true) {
    std::optional<std::string> name;
    {
      MutexLock lock(&mu_);
      MILLRACE_RETURN_IF_ERROR(cancelled_);
      name = Choose(by, rows, tried);
      if (!name.has_value()) break;
      Node& node = nodes_[*name];
      // It has run dry: it takes longer to hear of its partitions than it takes for them.
      if (node.assigned > 0 && node.active + node.outstanding == 0) {
        node.allowance = std::max(node.allowance, std::min(2 * node.allowance, kMostDry));
      }
      // Before it is looked up: another thread that chooses meanwhile must see it.
      ++node.active;
      ++node.assigned;
    }
    tried.insert(*name);
    absl::StatusOr<FeedTarget> target = directory_->Lookup(*name);
    if (target.ok() && target->state == FeedTarget::State::kRunning) {
      return std::optional<FeedTarget>(*std::move(target));
    }
    {
      MutexLock lock(&mu_);
      --nodes_[*name].active;
      --nodes_[*name].assigned;
    }
    MILLRACE_RETURN_IF_ERROR(target.status());
    if (target->state == FeedTarget::State::kFailed) return FailedError(*name);
    if (target->state == FeedTarget::State::kFinished) {
      StopReading(*name);
    } else {
      absl::StrAppend(&restarting, restarting.empty() ? "" : ", ", *name);
    }
  }
  if (restarting.empty()) return std::optional<FeedTarget>();
  return absl::UnavailableError(absl::StrCat("no node reads queue '", queue_, "': ", restarting,
                                             " did not come back within ",
                                             absl::FormatDuration(feed_timeout_)));
}

absl::StatusOr<std::optional<FeedTarget>> FeederNodes::Acquire() {
  return Acquire(By::kCount, std::nullopt);
}

absl::StatusOr<std::optional<FeedTarget>> FeederNodes::AcquireNext() {
  return Acquire(By::kPace, std::nullopt);
}

absl::StatusOr<std::optional<FeedTarget>> FeederNodes::AcquireForMove(double rows) {
  return Acquire(By::kPaceOfAll, rows);
}

absl::StatusOr<std::optional<FeedTarget>> FeederNodes::Acquire(By by, std::optional<double> rows) {
  const absl::Duration began = RealClock()->SteadyNow();
  absl::Duration pause = kFirstPause;
  while (true) {
    By now = by;
    if (by == By::kPace && size() == 1) now = By::kPaceOfAll;
    if (now == By::kPace) {
      MILLRACE_ASSIGN_OR_RETURN(now, WaitForWish());
    }
    absl::StatusOr<std::optional<FeedTarget>> target = TryAcquire(now, rows);
    // Another thread was faster: look again.
    if (target.ok() && !target->has_value() && now == By::kPace && any_reading()) continue;
    // The nodes that want more are restarting, while others, which have enough to do, are there.
    if (absl::IsUnavailable(target.status()) && now == By::kPace) {
      target = TryAcquire(By::kPaceOfAll, rows);
    }
    if (!absl::IsUnavailable(target.status())) return target;
    if (RealClock()->SteadyNow() - began >= feed_timeout_) return target;
    MILLRACE_RETURN_IF_ERROR(Pause(pause));
    pause = std::min(2 * pause, kLongestPause);
  }
}

std::optional<std::string> FeederNodes::ClaimLowest(const std::map<std::string, int64_t>& levels) {
  MutexLock lock(&mu_);
  const auto lowest =
      std::min_element(levels.begin(), levels.end(), [this](const auto& a, const auto& b) {
        mu_.AssertHeld();
        return std::pair(a.second, nodes_[a.first].active) <
               std::pair(b.second, nodes_[b.first].active);
      });
  if (!Claim(lowest->first)) return std::nullopt;
  return lowest->first;
}

absl::StatusOr<std::optional<FeedTarget>> FeederNodes::AcquireClaimed(const std::string& node) {
  const absl::Duration began = RealClock()->SteadyNow();
  absl::Duration pause = kFirstPause;
  while (true) {
    {
      MutexLock lock(&mu_);
      MILLRACE_RETURN_IF_ERROR(cancelled_);
      if (!nodes_[node].reading) {
        --nodes_[node].active;
        return std::optional<FeedTarget>();
      }
    }
    MILLRACE_ASSIGN_OR_RETURN(FeedTarget target, directory_->Lookup(node));
    switch (target.state) {
      case FeedTarget::State::kRunning:
        return std::optional<FeedTarget>(std::move(target));
      case FeedTarget::State::kFailed:
        return FailedError(node);
      case FeedTarget::State::kFinished:
        StopReading(node);
        Release(node);
        return std::optional<FeedTarget>();
      case FeedTarget::State::kStarting:
      case FeedTarget::State::kRestarting:
        break;
    }
    if (RealClock()->SteadyNow() - began >= feed_timeout_) {
      return absl::UnavailableError(absl::StrCat("queue '", queue_, "': ", node,
                                                 " did not come back within ",
                                                 absl::FormatDuration(feed_timeout_)));
    }
    MILLRACE_RETURN_IF_ERROR(Pause(pause));
    pause = std::min(2 * pause, kLongestPause);
  }
}

void FeederNodes::AcquireAgain(const std::string& node) {
  MutexLock lock(&mu_);
  ++nodes_[node].active;
  ++nodes_[node].assigned;
}

bool FeederNodes::ClaimAgain(const std::string& node) {
  MutexLock lock(&mu_);
  return Claim(node);
}

bool FeederNodes::Claim(const std::string& name) {
  Node& node = nodes_[name];
  if (node.active > 0) return false;
  ++node.active;
  ++node.assigned;
  return true;
}

void FeederNodes::Release(const std::string& node, bool outstanding) {
  MutexLock lock(&mu_);
  --nodes_[node].active;
  if (outstanding) ++nodes_[node].outstanding;
  changed_cv_.SignalAll();
}

void FeederNodes::Settle(const std::string& node) {
  MutexLock lock(&mu_);
  --nodes_[node].outstanding;
  changed_cv_.SignalAll();
}

void FeederNodes::Succeeded(const std::string& node) {
  MutexLock lock(&mu_);
  nodes_[node].failures = 0;
}

// ------------------------------------------------------------------------------------ recovering

absl::StatusOr<Recovery> FeederNodes::Recover(const FeedSession& session) {
  const SessionState state = session.state();
  const std::string& node = session.target().node;
  // A node that sees the connection go first says so on the one for replies.
  const bool lost = state.end == SessionEnd::kBroken ||
                    (state.end == SessionEnd::kError && absl::IsUnavailable(state.status));
  switch (state.end) {
    case SessionEnd::kTerminated:
      StopReading(node);
      return Recovery{Recovery::Where::kElsewhere, {}, absl::StrCat(node, " reads no more")};
    case SessionEnd::kRevoked:
      return Recovery{Recovery::Where::kElsewhere, {}, absl::StrCat(node, " would be done later")};
    case SessionEnd::kError:
      // Only a lost connection and an exit with 0 while results are due are not the last word.
      if (!lost && !absl::IsFailedPrecondition(state.status)) return state.status;
      break;
    case SessionEnd::kFailed:  // the coordinator says whether it is started again
    case SessionEnd::kBroken:
    case SessionEnd::kRefused:
    case SessionEnd::kUnanswered:
      break;
    case SessionEnd::kBadPeer:
    case SessionEnd::kAborted:
      return state.status;
    case SessionEnd::kOpen:
    case SessionEnd::kDone:
      return absl::InternalError("nothing to recover from");
  }

  absl::Duration pause = kFirstPause;
  absl::Duration since;
  {
    MutexLock lock(&mu_);
    Node& entry = nodes_[node];
    // feed_timeout is for a node that gets nowhere, and not for two failures of a long partition.
    if (state.received_rows > state.first_row || state.acked_rows > state.first_row ||
        state.returned_rows > 0) {
      entry.failures = 0;
    }
    if (entry.failures++ == 0) entry.failing_since = RealClock()->SteadyNow();
    since = entry.failing_since;
    for (int i = 1; i < entry.failures && pause < kLongestPause; ++i) pause *= 2;
  }
  absl::Duration grace = absl::ZeroDuration();
  if (state.end == SessionEnd::kFailed) grace = kEndGrace;
  if (!state.accepted && lost) grace = kUnreachableGrace;
  const absl::Duration began = RealClock()->SteadyNow();
  while (true) {
    // A dead process shows itself here before it does at the coordinator.
    MILLRACE_RETURN_IF_ERROR(Pause(std::min(pause, kLongestPause)));
    pause *= 2;
    MILLRACE_ASSIGN_OR_RETURN(std::optional<Recovery> recovery, LookAgain(session, state));
    const absl::Duration now = RealClock()->SteadyNow();
    const bool lapsed = now - since >= feed_timeout_;
    if (!recovery.has_value()) {
      if (!lapsed) continue;
      return absl::UnavailableError(absl::StrCat(
          session.Place(), ": the node has been restarting for ",
          absl::FormatDuration(feed_timeout_), " (feed_timeout): ", state.status.message()));
    }
    if (recovery->where != Recovery::Where::kSameAttempt) return *std::move(recovery);
    if (!lapsed && now - began < grace) continue;
    // The process is there: only a connection is worth another try.
    if (lapsed || !lost) return state.status;
    return *std::move(recovery);
  }
}

// nullopt: the node is restarting.
absl::StatusOr<std::optional<Recovery>> FeederNodes::LookAgain(const FeedSession& session,
                                                               const SessionState& state) {
  const std::string& node = session.target().node;
  MILLRACE_ASSIGN_OR_RETURN(FeedTarget target, directory_->Lookup(node));
  switch (target.state) {
    case FeedTarget::State::kFailed:
      // What the node said before it failed is the first cause.
      return state.end == SessionEnd::kError || state.end == SessionEnd::kFailed
                 ? state.status
                 : FailedError(node);
    case FeedTarget::State::kFinished:
      // Exit with 0 while results are due is the program's mistake, not a way to stop reading; but
      // other nodes may do the partition.
      StopReading(node);
      return std::optional<Recovery>(
          Recovery{Recovery::Where::kElsewhere, {}, absl::StrCat(node, " finished")});
    case FeedTarget::State::kStarting:
    case FeedTarget::State::kRestarting:
      return std::optional<Recovery>();
    case FeedTarget::State::kRunning:
      break;
  }
  if (target.nonce != session.target().nonce) {
    return std::optional<Recovery>(Recovery{Recovery::Where::kNewAttempt, std::move(target),
                                            absl::StrCat(node, " was restarted")});
  }
  return std::optional<Recovery>(Recovery{Recovery::Where::kSameAttempt, std::move(target),
                                          absl::StrCat("the connection to ", node, " was lost")});
}

}  // namespace millrace
