#include "dashboard/source/demo_source.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "dashboard/source/demo_cluster.h"
#include "dashboard/source/playback_source.h"
#include "dashboard/source/split_update.h"

namespace millrace::dashboard {
namespace {

constexpr int kHugeNodes = 10'000;
constexpr int kMaxNodes = 100'000;
constexpr int kMaxGpus = 16;
constexpr int kReplaySeconds = 300;
// The connection of "stale": lost from there, for so long, again every so often.
constexpr int kLostFrom = 31;
constexpr int kLostFor = 25;
constexpr int kLostEvery = 90;

// When each scenario shows what it is about.
absl::Duration BeginAt(const std::string& scenario) {
  if (scenario == "starting") return absl::Seconds(6);
  if (scenario == "missing-slot") return absl::Seconds(14);
  if (scenario == "huge") return absl::Seconds(12);
  if (scenario == "stale") return absl::Seconds(kLostFrom + 19);
  if (scenario == "flapping") return absl::Seconds(100);
  if (scenario == "idle") return absl::Seconds(120);
  if (scenario == "replay") return absl::Seconds(120);
  return absl::Seconds(60);
}

bool LostAt(const DemoOptions& options, int second) {
  return options.scenario == "stale" && second >= kLostFrom &&
         (second - kLostFrom) % kLostEvery < kLostFor;
}

// Appends the second's parts.
void AddStep(DemoCluster* cluster, int second, absl::Time arrived, const LinkState& link,
             std::deque<SourceUpdate>* updates) {
  auto step = std::make_shared<v1::WatchUpdate>(cluster->Step(second));
  uint64_t bytes = step->ByteSizeLong();
  auto parts = SplitUpdate(std::move(step));
  for (size_t i = 0; i < parts.size(); ++i) {
    SourceUpdate& update = updates->emplace_back();
    update.arrived = arrived;
    update.watch = std::move(parts[i]);
    update.more = i + 1 < parts.size();
    update.link = link;
    update.bytes = std::exchange(bytes, 0);
  }
}

DemoShape ShapeOf(const DemoOptions& options, absl::Time started) {
  DemoShape shape;
  shape.nodes = options.nodes;
  shape.gpus_per_node = options.gpus_per_node;
  shape.scenario = options.scenario;
  shape.seed = options.seed;
  shape.sample_every = static_cast<int>(absl::ToInt64Seconds(options.sample_every));
  shape.started = started;
  return shape;
}

LinkState Live(absl::Time since, int reconnects = 0) {
  LinkState link;
  link.kind = LinkState::Kind::kLive;
  link.since = since;
  link.reconnects = reconnects;
  return link;
}

class DemoSource final : public UpdateSource {
 public:
  explicit DemoSource(DemoOptions options) : options_(std::move(options)) {}

  std::string title() const override {
    return options_.scenario.empty() ? "demo" : absl::StrCat("demo: ", options_.scenario);
  }

  void Poll(absl::Time now, size_t max_updates, std::vector<SourceUpdate>* updates) override {
    if (cluster_ == nullptr) {
      if (options_.started == absl::InfiniteFuture()) options_.started = now - options_.begin_at;
      cluster_ = std::make_unique<DemoCluster>(ShapeOf(options_, options_.started));
      link_ = Live(options_.started);
    }
    for (size_t taken = 0; taken < max_updates; ++taken) {
      if (waiting_.empty() && !MakeNext(now)) return;
      updates->push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
  }

 private:
  // Fills waiting_ with the next second that is over. Returns false if there is none yet.
  bool MakeNext(absl::Time now) {
    const absl::Time at = options_.started + absl::Seconds(second_);
    if (at > now) return false;
    if (LostAt(options_, second_)) {
      if (link_.kind == LinkState::Kind::kLive) {
        link_.kind = LinkState::Kind::kStale;
        link_.since = at - absl::Seconds(1);
        link_.reason = "the coordinator does not answer (demo)";
      }
      // The cluster goes on unseen; its updates of that time arrive together at the end.
      AddStep(cluster_.get(), second_, at, link_, &unseen_);
      SourceUpdate& update = waiting_.emplace_back();
      update.arrived = at;
      update.link = link_;
    } else {
      if (link_.kind == LinkState::Kind::kStale) {
        link_ = Live(at, link_.reconnects + 1);
        for (SourceUpdate& update : unseen_) {
          update.arrived = at;
          update.link = link_;
          waiting_.push_back(std::move(update));
        }
        unseen_.clear();
      }
      AddStep(cluster_.get(), second_, at, link_, &waiting_);
    }
    ++second_;
    return true;
  }

  DemoOptions options_;
  std::unique_ptr<DemoCluster> cluster_;
  int second_ = 0;
  LinkState link_;
  std::deque<SourceUpdate> waiting_;
  std::deque<SourceUpdate> unseen_;
};

class DemoFrames final : public PlaybackFrames {
 public:
  explicit DemoFrames(const DemoOptions& options) {
    DemoCluster cluster(ShapeOf(options, options.started));
    for (int second = 0; second <= kReplaySeconds; ++second) {
      AddStep(&cluster, second, options.started + absl::Seconds(second), Live(options.started),
              &frames_);
    }
  }
  size_t size() const override { return frames_.size(); }
  absl::Time arrived(size_t frame) const override { return frames_[frame].arrived; }
  Kind kind(size_t frame) const override { return frame == 0 ? Kind::kStart : Kind::kUpdate; }
  absl::StatusOr<SourceUpdate> Read(size_t frame) override { return frames_[frame]; }

 private:
  std::deque<SourceUpdate> frames_;
};

}  // namespace

const std::vector<std::string>& DemoScenarios() {
  static const auto* const kScenarios = new std::vector<std::string>{
      "starting", "missing-slot", "slow-source", "slow-node", "skewed", "oom-cascade", "flapping",
      "gpu-hot",  "gpu-unknown",  "idle",        "huge",      "stale",  "replay"};
  return *kScenarios;
}

absl::StatusOr<std::unique_ptr<UpdateSource>> MakeDemoSource(DemoOptions options) {
  const std::vector<std::string>& known = DemoScenarios();
  if (!options.scenario.empty() &&
      std::find(known.begin(), known.end(), options.scenario) == known.end()) {
    return absl::InvalidArgumentError(absl::StrCat("there is no scenario \"", options.scenario,
                                                   "\"; there are: ", absl::StrJoin(known, ", ")));
  }
  if (options.nodes < 0 || options.nodes > kMaxNodes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a demo has 0 to ", kMaxNodes, " nodes, not ", options.nodes));
  }
  if (options.gpus_per_node < 0 || options.gpus_per_node > kMaxGpus) {
    return absl::InvalidArgumentError(
        absl::StrCat("a node of a demo has 0 to ", kMaxGpus, " GPUs, not ", options.gpus_per_node));
  }
  if (options.begin_at < absl::ZeroDuration()) {
    return absl::InvalidArgumentError("a demo cannot begin before its cluster");
  }
  if (options.sample_every < absl::ZeroDuration()) {
    return absl::InvalidArgumentError("a demo cannot sample a node after less than no time");
  }
  if (options.scenario == "huge") options.nodes = std::max(options.nodes, kHugeNodes);
  if (options.begin_at == absl::InfiniteDuration()) options.begin_at = BeginAt(options.scenario);
  if (options.scenario == "replay") {
    PlaybackOptions playback;
    playback.title = "demo: replay";
    playback.begin_at = options.begin_at;
    if (options.started == absl::InfiniteFuture()) {
      // A recording is of the past: the same one each time.
      options.started = absl::FromUnixSeconds(1'767'262'800);  // 2026-01-01 10:20:00 UTC
    }
    return MakePlaybackSource(std::make_unique<DemoFrames>(options), playback);
  }
  return std::make_unique<DemoSource>(std::move(options));
}

}  // namespace millrace::dashboard
