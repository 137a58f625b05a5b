#include "dashboard/app/comparison.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace millrace::dashboard {
namespace {

// The limits of the time span that can be chosen, and the step in recordings, as without another.
constexpr absl::Duration kLeastSpan = absl::Seconds(10);
constexpr absl::Duration kMostSpan = absl::Hours(1);
constexpr absl::Duration kRecordingStep = absl::Seconds(5);
// A cluster whose newest data are so little beyond what is shown is shown by them: two that are
// played together are never more apart.
constexpr absl::Duration kTogether = absl::Seconds(2);
// A recording that has ended so little before is there.
constexpr absl::Duration kSamePlace = absl::Milliseconds(20);

}  // namespace

void Comparison::Learn(size_t cluster) {
  const DashboardModel& model = *clusters_[cluster].model;
  Facts& known = known_[cluster];
  const absl::Time started = model.cluster().started;
  if (!model.has_data() || started == absl::InfinitePast()) return;
  if (started != known.started) {
    known.started = started;
    known.ran = absl::InfinitePast();
    known.clock_offset = model.clock_offset();
  }
  // What was long under way says nothing about clocks.
  known.clock_offset = std::min(known.clock_offset, model.clock_offset());
  // Once known it stays so, while a recording is played from an earlier place.
  if (model.all_ran() != absl::InfinitePast()) known.ran = model.all_ran();
}

absl::Time Comparison::ZeroOf(size_t cluster) const {
  return zero_ == Zero::kRan ? known_[cluster].ran : known_[cluster].started;
}

absl::Duration Comparison::PlaceOf(size_t cluster, absl::Time viewer) const {
  return viewer - known_[cluster].clock_offset - ZeroOf(cluster);
}

absl::Duration Comparison::BeginOf(size_t cluster) const {
  return PlaceOf(cluster, clusters_[cluster].playback->begin());
}

absl::Duration Comparison::EndOf(size_t cluster) const {
  return PlaceOf(cluster, clusters_[cluster].playback->end());
}

absl::Duration Comparison::Newest(size_t cluster) const {
  return clusters_[cluster].model->now() - ZeroOf(cluster);
}

absl::Duration Comparison::Missing(size_t cluster) const {
  if (clusters_[cluster].playback == nullptr) return absl::ZeroDuration();
  return place_ < BeginOf(cluster) - kSamePlace ? place_ - BeginOf(cluster)
         : place_ > EndOf(cluster) + kSamePlace ? place_ - EndOf(cluster)
                                                : absl::ZeroDuration();
}

bool Comparison::Follow(const std::array<ComparedCluster, 2>& clusters) {
  clusters_ = clusters;
  for (size_t i = 0; i < clusters_.size(); ++i) Learn(i);
  if (!knows(Zero::kStarted)) return false;
  if (!knows(zero_)) zero_ = Zero::kStarted;
  if (std::exchange(aligned_, true)) {
    TakePlace();
    return false;
  }
  for (const size_t i : {1, 0}) {
    const Playback* playback = clusters_[i].playback;
    if (playback == nullptr) continue;
    place_ = PlaceOf(i, playback->position());
    paused_ = playback->paused();
    speed_ = playback->speed();
  }
  if (scrubbable()) Go(place_);
  TakePlace();
  return true;
}

// What has been played since the last frame.
void Comparison::TakePlace() {
  if (!scrubbable()) {
    place_ = std::min(Newest(0), Newest(1));
    return;
  }
  absl::Duration place = -absl::InfiniteDuration();
  bool playing = false;  // any of them has something before it
  for (size_t i = 0; i < clusters_.size(); ++i) {
    const Playback* playback = clusters_[i].playback;
    if (playback == nullptr || known_[i].waits) continue;
    place = std::max(place, PlaceOf(i, playback->position()));
    playing = playing || playback->position() < playback->end();
  }
  place_ = place;
  for (size_t i = 0; i < clusters_.size(); ++i) {
    if (!known_[i].waits || (playing && place_ < BeginOf(i))) continue;
    known_[i].waits = false;
    clusters_[i].playback->SetPaused(paused_);
    place_ = std::max(place_, BeginOf(i));
  }
}

bool Comparison::scrubbable() const {
  return std::any_of(clusters_.begin(), clusters_.end(),
                     [](const ComparedCluster& each) { return each.playback != nullptr; });
}

absl::Duration Comparison::begin() const {
  absl::Duration begin = absl::InfiniteDuration();
  for (size_t i = 0; i < clusters_.size(); ++i) {
    if (clusters_[i].playback != nullptr) begin = std::min(begin, BeginOf(i));
  }
  return begin;
}

absl::Duration Comparison::end() const {
  absl::Duration end = -absl::InfiniteDuration();
  for (size_t i = 0; i < clusters_.size(); ++i) {
    if (clusters_[i].playback != nullptr) end = std::max(end, EndOf(i));
  }
  return end;
}

void Comparison::Go(absl::Duration place) {
  place_ = std::clamp(place, begin(), end());
  for (size_t i = 0; i < clusters_.size(); ++i) {
    Playback* playback = clusters_[i].playback;
    if (playback == nullptr) continue;
    known_[i].waits = place_ < BeginOf(i);
    const absl::Time position =
        std::clamp(playback->begin() + (place_ - BeginOf(i)), playback->begin(), playback->end());
    if (playback->position() != position) playback->Seek(position);
    playback->SetPaused(paused_ || known_[i].waits);
    playback->SetSpeed(speed_);
  }
}

void Comparison::Seek(absl::Duration place) {
  if (aligned_ && scrubbable()) Go(place);
}

void Comparison::SetPaused(bool paused) {
  paused_ = paused;
  for (size_t i = 0; i < clusters_.size(); ++i) {
    if (clusters_[i].playback != nullptr)
      clusters_[i].playback->SetPaused(paused_ || known_[i].waits);
  }
}

void Comparison::SetSpeed(double speed) {
  speed_ = speed;
  for (const ComparedCluster& each : clusters_) {
    if (each.playback != nullptr) each.playback->SetSpeed(speed);
  }
}

bool Comparison::knows(Zero zero) const {
  return std::all_of(known_.begin(), known_.end(), [zero](const Facts& known) {
    return (zero == Zero::kRan ? known.ran : known.started) != absl::InfinitePast();
  });
}

void Comparison::SetZero(Zero zero) {
  if (!knows(zero) || zero == zero_) return;
  // The first one stays where it is.
  const absl::Duration moved = ZeroOf(0) - (zero == Zero::kRan ? known_[0].ran : known_[0].started);
  zero_ = zero;
  from_ += moved;
  to_ += moved;
  if (scrubbable()) Go(place_ + moved);
  TakePlace();
}

void Comparison::SetLive(bool live) {
  if (live == brush_.live) return;
  const Common shown = Shown();
  from_ = shown.from;
  to_ = shown.to;
  brush_.live = live;
}

void Comparison::SetSpan(absl::Duration span) {
  brush_.live = true;
  brush_.span = span;
}

void Comparison::SetBrush(size_t cluster, const TimeBrush& brush) {
  brush_ = brush;
  from_ = brush.from - ZeroOf(cluster);
  to_ = brush.to - ZeroOf(cluster);
}

void Comparison::Move(int move, int widen) {
  if (brush_.live && move != 0 && scrubbable()) {
    Seek(place_ + move * kRecordingStep);
  } else if (brush_.live && widen != 0) {
    brush_.span = std::clamp(widen > 0 ? brush_.span * 2 : brush_.span / 2, kLeastSpan, kMostSpan);
  } else {
    if (brush_.live) {
      to_ = place_;
      from_ = to_ - brush_.span;
      brush_.live = false;
    }
    const double factor = widen > 0 ? 2.0 : widen < 0 ? 0.5 : 1.0;
    const absl::Duration span = std::clamp((to_ - from_) * factor, kLeastSpan, kMostSpan);
    to_ = std::min(to_ + move * span / 4, std::max({place_, Newest(0), Newest(1)}));
    from_ = to_ - span;
  }
}

Comparison::Common Comparison::Shown() const {
  if (!brush_.live) return {from_, to_};
  // Of young clusters all that there is, rather than the emptiness before them.
  const absl::Duration begun =
      std::min(known_[0].started - ZeroOf(0), known_[1].started - ZeroOf(1)) - absl::Seconds(2);
  return {std::max(place_ - brush_.span, std::min(begun, place_ - absl::Seconds(30))), place_};
}

Comparison::Common Comparison::common() const {
  Common common = Shown();
  for (size_t i = 0; i < clusters_.size(); ++i) {
    common.to = std::min(common.to, Newest(i));
    if (clusters_[i].playback != nullptr) common.from = std::max(common.from, BeginOf(i));
  }
  return common;
}

TimeRange Comparison::RangeOf(size_t cluster) const {
  const Common shown = Shown();
  return {ZeroOf(cluster) + shown.from, ZeroOf(cluster) + shown.to};
}

TimeBrush Comparison::BrushOf(size_t cluster) const {
  const Common shown = Shown();
  TimeBrush brush = brush_;
  // What has ended before is shown as it ended.
  brush.live = Newest(cluster) <= shown.to + (brush_.live ? kTogether : absl::ZeroDuration());
  if (brush.live) return brush;
  brush.from = ZeroOf(cluster) + shown.from;
  brush.to = ZeroOf(cluster) + shown.to;
  if (brush_.live) {
    // It moves with the other one: by whole seconds, in which values are kept.
    const absl::Duration less = shown.to - absl::Floor(shown.to, absl::Seconds(1));
    brush.from -= less;
    brush.to -= less;
  }
  return brush;
}

// ---- what is selected ----

namespace {

template <typename T>
bool Within(int index, const std::vector<T>& all) {
  return index >= 0 && static_cast<size_t>(index) < all.size();
}

// The feeds of a queue by the time at which they were opened.
std::vector<std::string> FeedsOf(const DashboardModel& model, const std::string& queue) {
  std::vector<std::pair<absl::Time, std::string>> feeds;
  for (const auto& [id, feed] : model.feeds()) {
    if (feed.info.queue() == queue) feeds.emplace_back(feed.opened, id);
  }
  std::sort(feeds.begin(), feeds.end());
  std::vector<std::string> ids;
  ids.reserve(feeds.size());
  for (auto& [opened, id] : feeds) ids.push_back(std::move(id));
  return ids;
}

std::string FeedCounterpart(const std::string& feed, const DashboardModel& from,
                            const DashboardModel& to) {
  const auto found = from.feeds().find(feed);
  if (found == from.feeds().end()) return "";
  const std::string& queue = found->second.info.queue();
  const std::vector<std::string> mine = FeedsOf(from, queue);
  const std::vector<std::string> theirs = FeedsOf(to, queue);
  const auto place = static_cast<size_t>(std::find(mine.begin(), mine.end(), feed) - mine.begin());
  return place < theirs.size() ? theirs[place] : "";
}

int HostCounterpart(const std::string& name, const DashboardModel& to) {
  const auto found = std::find_if(to.hosts().begin(), to.hosts().end(),
                                  [&](const HostState& host) { return host.name == name; });
  return found == to.hosts().end() ? -1 : static_cast<int>(found - to.hosts().begin());
}

// The GPU with the same place among those of its node or, if no node has it, of its host.
int GpuCounterpart(int gpu, const Selection& in, const DashboardModel& from,
                   const DashboardModel& to) {
  const GpuState& state = from.gpus()[static_cast<size_t>(gpu)];
  const auto place_in = [gpu](const std::vector<int>& gpus) {
    return static_cast<size_t>(std::find(gpus.begin(), gpus.end(), gpu) - gpus.begin());
  };
  const auto at = [](const std::vector<int>& gpus, size_t place) {
    return place < gpus.size() ? gpus[place] : -1;
  };
  if (Within(state.owner, from.nodes()) && Within(in.node, to.nodes())) {
    return at(to.nodes()[static_cast<size_t>(in.node)].gpus,
              place_in(from.nodes()[static_cast<size_t>(state.owner)].gpus));
  }
  if (!Within(state.host, from.hosts()) || !Within(in.host, to.hosts())) return -1;
  return at(to.hosts()[static_cast<size_t>(in.host)].gpus,
            place_in(from.hosts()[static_cast<size_t>(state.host)].gpus));
}

}  // namespace

Selection Counterpart(const Selection& selection, const DashboardModel& from,
                      const DashboardModel& to) {
  Selection found;
  found.queue = selection.queue;
  found.feed = FeedCounterpart(selection.feed, from, to);
  if (Within(selection.node, from.nodes())) {
    found.node = to.FindNode(from.nodes()[static_cast<size_t>(selection.node)].name);
  }
  if (Within(found.node, to.nodes())) {
    if (selection.host >= 0) found.host = to.nodes()[static_cast<size_t>(found.node)].host_index;
  } else if (Within(selection.host, from.hosts())) {
    found.host = HostCounterpart(from.hosts()[static_cast<size_t>(selection.host)].name, to);
  }
  if (Within(selection.gpu, from.gpus())) {
    found.gpu = GpuCounterpart(selection.gpu, found, from, to);
  }
  return found;
}

}  // namespace millrace::dashboard
