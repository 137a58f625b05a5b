#include "core/cli/top/top_once.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/base/mutex.h"
#include "core/cli/output/answer.h"
#include "core/cli/top/top_view.h"
#include "core/cli/view/view_json.h"
#include "core/client/cluster_view.h"
#include "dashboard/model/dashboard_model.h"
#include "dashboard/model/source_update.h"
#include "dashboard/model/verdict.h"
#include "dashboard/model/warnings.h"
#include "millrace/status_macros.h"

namespace millrace::cli {
namespace {

using dashboard::DashboardModel;
using dashboard::VerdictSentence;

// The first update, and two more: samples are a second old at most.
constexpr int kEnoughUpdates = 3;
constexpr absl::Duration kPatience = absl::Seconds(1);

// What a watch has told.
class Seen {
 public:
  Seen() : model_({.zone = absl::UTCTimeZone(), .max_log_lines = 1000}) {}

  void Take(const std::shared_ptr<v1::WatchUpdate>& update) {
    MutexLock lock(&mu_);
    const absl::Status taken = view_.Apply(*update);
    if (!taken.ok() && !result_.has_value()) result_ = taken;
    model_.Apply({.arrived = absl::Now(),
                  .watch = update,
                  .link = {.kind = dashboard::LinkState::Kind::kLive, .since = absl::Now()}});
    if (updates_++ == 0) first_ = RealClock()->SteadyNow();
    told_.SignalAll();
  }

  void SetState(const WatchState& state) {
    MutexLock lock(&mu_);
    if (state.kind == WatchState::Kind::kRefused) result_ = state.reason;
    if (state.kind == WatchState::Kind::kGone && !result_.has_value()) {
      // What is known of it is its last state.
      result_ = updates_ > 0 ? absl::OkStatus() : state.reason;
      model_.Apply({.arrived = absl::Now(),
                    .link = {.kind = dashboard::LinkState::Kind::kEnded,
                             .since = absl::Now(),
                             .reason = std::string(state.reason.message())}});
    }
    told_.SignalAll();
  }

  void End(const absl::Status& status) {
    MutexLock lock(&mu_);
    result_ = status;
    told_.SignalAll();
  }

  absl::Status Wait(absl::Duration interval) {
    MutexLock lock(&mu_);
    while (!result_.has_value() && updates_ < kEnoughUpdates) {
      const absl::Duration left =
          updates_ == 0 ? absl::InfiniteDuration()
                        : first_ + 2 * interval + kPatience - RealClock()->SteadyNow();
      if (told_.WaitWithTimeout(&mu_, left)) break;
    }
    model_.Advance(absl::Now());
    model_.Settle();
    return result_.value_or(absl::OkStatus());
  }

  // Once the watch has stopped.
  [[nodiscard]] const ClusterView& view() const ABSL_NO_THREAD_SAFETY_ANALYSIS { return view_; }
  [[nodiscard]] const DashboardModel& model() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return model_;
  }

 private:
  Mutex mu_;
  CondVar told_;
  ClusterView view_ ABSL_GUARDED_BY(mu_);
  DashboardModel model_ ABSL_GUARDED_BY(mu_);
  int updates_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Duration first_ ABSL_GUARDED_BY(mu_);  // steady
  std::optional<absl::Status> result_ ABSL_GUARDED_BY(mu_);
};

OrderedJson SentenceJson(const VerdictSentence& sentence) {
  return {{"mood", MoodName(sentence.mood)},
          {"text", sentence.text},
          {"evidence",
           sentence.evidence.empty() ? OrderedJson(nullptr) : OrderedJson(sentence.evidence)}};
}

// What `status` says, and what the window concludes from it.
OrderedJson TopJson(const ClusterView& view, const DashboardModel& model) {
  OrderedJson json = StatusJson(view);
  json["sentences"] = {{"start", SentenceJson(model.verdict().start)},
                       {"gpus", SentenceJson(model.verdict().gpus)},
                       {"failure", SentenceJson(model.verdict().failure)}};
  OrderedJson warnings = OrderedJson::array();
  for (const dashboard::Warning* warning : model.warnings()) {
    warnings.push_back(
        {{"id", warning->id}, {"mood", MoodName(warning->mood)}, {"text", warning->text}});
  }
  json["warnings"] = warnings;
  return json;
}

}  // namespace

absl::Status PrintTopOnce(RawClusterClient* client, absl::Duration interval, bool json,
                          const GridOptions& format) {
  Seen seen;
  const ReaderWatch reader([&] { seen.End(NobodyReadsError()); });
  RawWatchCallbacks callbacks;
  callbacks.take_update = [&](std::shared_ptr<v1::WatchUpdate> update) { seen.Take(update); };
  callbacks.on_state = [&](const WatchState& state) { seen.SetState(state); };
  MILLRACE_ASSIGN_OR_RETURN(
      const std::unique_ptr<ClusterWatch> watch,
      client->Watch({.interval = interval, .log_lines = 10}, std::move(callbacks)));
  const absl::Status waited = seen.Wait(interval);
  watch->Stop();
  MILLRACE_RETURN_IF_ERROR(waited);
  return WriteAnswer(json ? absl::StrCat(DumpJson(TopJson(seen.view(), seen.model())), "\n")
                          : OnceText(seen.model(), format));
}

}  // namespace millrace::cli
