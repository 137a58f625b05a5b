#include "core/coordinator/view/view_store.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/fake_clock.h"
#include "core/base/status_matchers.h"
#include "core/client/cluster_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;

constexpr char kIncarnation[] = "abc";

SlotStatus Slot(int id, SlotState state, uint32_t attempt = 0) {
  SlotStatus slot;
  slot.executor_id = id;
  slot.role = {"worker", id};
  slot.state = state;
  slot.attempt = attempt;
  slot.address = absl::StrCat("10.0.0.1:", 100 + id);
  slot.reached[static_cast<int>(state)] = absl::UnixEpoch() + absl::Seconds(id);
  return slot;
}

v1::NodeSample Sample(uint64_t rss, uint32_t attempt = 0) {
  v1::NodeSample sample;
  sample.set_attempt(attempt);
  sample.mutable_process()->set_rss_bytes(rss);
  sample.add_gpus()->set_uuid("GPU-1");
  return sample;
}

v1::Event TextEvent(const std::string& text) {
  v1::Event event;
  event.set_kind("slot");
  event.set_text(text);
  return event;
}

std::vector<std::string> Lines(const v1::WatchUpdate& update) {
  std::vector<std::string> lines;
  for (const v1::LogBatch& batch : update.logs()) {
    lines.insert(lines.end(), batch.lines().begin(), batch.lines().end());
  }
  return lines;
}

struct Fixture {
  explicit Fixture(int num_slots = 3, ViewLimits limits = {})
      : store({.num_slots = num_slots,
               .incarnation = kIncarnation,
               .limits = limits,
               .clock = &clock}) {
    for (int i = 0; i < num_slots; ++i) store.SetSlot(Slot(i, SlotState::kRequested));
  }
  FakeClock clock;
  ViewStore store;
};

TEST(ViewStoreTest, ASnapshotThenOnlyWhatChanged) {
  Fixture f;
  ViewCursor cursor = f.store.Resume({.level = v1::WATCH_LEVEL_ALL});
  EXPECT_TRUE(f.store.HasNews(cursor));
  v1::WatchUpdate update = f.store.Next(&cursor);
  EXPECT_TRUE(update.snapshot());
  EXPECT_EQ(update.incarnation(), kIncarnation);
  EXPECT_EQ(update.slots_size(), 3);
  EXPECT_EQ(update.cluster().num_slots(), 3);
  EXPECT_EQ(update.cluster().by_state(v1::SLOT_STATE_REQUESTED), 3);
  EXPECT_FALSE(f.store.HasNews(cursor));

  f.store.SetSlot(Slot(1, SlotState::kRunning));
  f.store.SetSample(1, Sample(7));
  f.store.SetSample(1, Sample(8));
  EXPECT_TRUE(f.store.HasNews(cursor));
  update = f.store.Next(&cursor);
  EXPECT_FALSE(update.snapshot());
  ASSERT_EQ(update.slots_size(), 1);
  EXPECT_EQ(update.slots(0).state(), v1::SLOT_STATE_RUNNING);
  ASSERT_EQ(update.nodes_size(), 1);
  EXPECT_EQ(update.nodes(0).sample().process().rss_bytes(), 8u);
  EXPECT_EQ(update.cluster().by_state(v1::SLOT_STATE_REQUESTED), 2);
  EXPECT_EQ(update.cluster().by_state(v1::SLOT_STATE_RUNNING), 1);

  update = f.store.Next(&cursor);
  EXPECT_EQ(update.slots_size() + update.nodes_size() + update.events_size(), 0);
  EXPECT_FALSE(update.has_cluster());
}

TEST(ViewStoreTest, ALevelShowsNoMoreThanItSays) {
  Fixture f;
  f.store.SetSample(0, Sample(1));
  f.store.AddMetric(0, 0, "loss", 1, 0.5, absl::UnixEpoch());
  f.store.AddLog(0, 0, v1::LogLines::SOURCE_STDOUT, {"a"}, 0);
  f.store.AddEvent(TextEvent("e"));
  ViewCursor cluster = f.store.Resume({.level = v1::WATCH_LEVEL_CLUSTER, .log_lines = 10});
  v1::WatchUpdate update = f.store.Next(&cluster);
  EXPECT_EQ(update.slots_size() + update.nodes_size() + update.metrics_size() + update.logs_size(),
            0);
  EXPECT_EQ(update.events_size(), 1);
  ViewCursor nodes = f.store.Resume({.level = v1::WATCH_LEVEL_NODES, .log_lines = 10});
  update = f.store.Next(&nodes);
  ASSERT_EQ(update.nodes_size(), 1);
  EXPECT_EQ(update.nodes(0).sample().gpus_size(), 0);
  EXPECT_EQ(update.metrics_size() + update.logs_size(), 0);
  ViewCursor all = f.store.Resume({.level = v1::WATCH_LEVEL_UNSPECIFIED, .log_lines = 10});
  update = f.store.Next(&all);
  EXPECT_EQ(update.nodes(0).sample().gpus_size(), 1);
  EXPECT_EQ(update.metrics_size(), 1);
  EXPECT_THAT(Lines(update), ElementsAre("a"));

  f.store.SetSample(0, Sample(2));
  EXPECT_FALSE(f.store.HasNews(cluster));
  EXPECT_TRUE(f.store.HasNews(nodes));
}

TEST(ViewStoreTest, AReaderResumesAfterWhatItHasSeenAndElseGetsASnapshot) {
  Fixture f;
  ViewCursor cursor = f.store.Resume({});
  const uint64_t seen = f.store.Next(&cursor).seq();
  f.store.AddEvent(TextEvent("one"));
  ViewCursor again = f.store.Resume({.resume_after = seen, .incarnation = kIncarnation});
  v1::WatchUpdate update = f.store.Next(&again);
  EXPECT_FALSE(update.snapshot());
  ASSERT_EQ(update.events_size(), 1);
  EXPECT_EQ(update.events(0).text(), "one");

  ViewCursor other = f.store.Resume({.resume_after = seen, .incarnation = "other"});
  EXPECT_TRUE(f.store.Next(&other).snapshot());
  ViewCursor never_sent = f.store.Resume({.resume_after = 1, .incarnation = kIncarnation});
  EXPECT_TRUE(f.store.Next(&never_sent).snapshot());
  ViewCursor future = f.store.Resume({.resume_after = seen + 1000, .incarnation = kIncarnation});
  EXPECT_TRUE(f.store.Next(&future).snapshot());
}

TEST(ViewStoreTest, ASlowReaderIsToldExactlyWhatItMissed) {
  ViewLimits limits;
  limits.events = 10;
  limits.metrics = 20;
  limits.log_lines_per_node = 30;
  Fixture f(3, limits);
  ViewCursor cursor = f.store.Resume({.log_lines = 5});
  f.store.AddEvent(TextEvent("early"));
  (void)f.store.Next(&cursor);
  for (int i = 0; i < 100; ++i) {
    f.store.AddEvent(TextEvent(absl::StrCat(i)));
    f.store.AddMetric(0, 0, "loss", i, i, absl::UnixEpoch());
    f.store.AddLog(0, 0, v1::LogLines::SOURCE_STDOUT, {absl::StrCat(i)}, 0);
  }
  v1::WatchUpdate update = f.store.Next(&cursor);
  EXPECT_FALSE(update.snapshot());
  EXPECT_EQ(update.events_size(), 10);
  EXPECT_EQ(update.dropped_events(), 90u);
  EXPECT_EQ(update.events(0).text(), "90");
  EXPECT_EQ(update.metrics_size(), 20);
  EXPECT_EQ(update.dropped_metrics(), 80u);
  EXPECT_EQ(Lines(update).size(), 30u);
  EXPECT_EQ(update.dropped_log_lines(), 70u);
  update = f.store.Next(&cursor);
  EXPECT_EQ(update.dropped_events() + update.dropped_metrics() + update.dropped_log_lines(), 0u);
  // Who begins has missed nothing.
  ViewCursor fresh = f.store.Resume({.log_lines = 5});
  update = f.store.Next(&fresh);
  EXPECT_EQ(update.dropped_events() + update.dropped_metrics() + update.dropped_log_lines(), 0u);
  EXPECT_THAT(Lines(update), ElementsAre("95", "96", "97", "98", "99"));
}

TEST(ViewStoreTest, LogsAreBoundedTogetherAndQuietNodesKeepTheirsLongest) {
  ViewLimits limits;
  limits.log_bytes = size_t{1} << 20;
  Fixture f(3, limits);
  for (int i = 0; i < 20'000; ++i) {
    f.store.AddLog(i % 2, 0, v1::LogLines::SOURCE_STDERR, {std::string(1000, 'x')}, 0);
    EXPECT_LE(f.store.log_bytes(), limits.log_bytes);
  }
  f.store.AddLog(2, 0, v1::LogLines::SOURCE_STDERR, {"quiet"}, 3);
  LogCursor cursor = f.store.BeginLogs({2}, 10, false);
  std::optional<v1::LogBatch> batch = f.store.NextLogs(&cursor);
  ASSERT_TRUE(batch.has_value());
  EXPECT_THAT(batch->lines(), ElementsAre("quiet"));
  EXPECT_EQ(batch->dropped(), 3u);
  EXPECT_FALSE(f.store.NextLogs(&cursor).has_value());
}

TEST(ViewStoreTest, ReadLogsGivesTheLastLinesThenFollowsAndCountsWhatItMissed) {
  ViewLimits limits;
  limits.log_lines_per_node = 10;
  Fixture f(3, limits);
  for (int i = 0; i < 5; ++i) {
    f.store.AddLog(0, 0, v1::LogLines::SOURCE_STDOUT, {absl::StrCat("a", i), absl::StrCat("b", i)},
                   0);
    f.store.AddLog(1, 0, v1::LogLines::SOURCE_STDOUT, {absl::StrCat("c", i)}, 0);
  }
  LogCursor cursor = f.store.BeginLogs({}, 3, true);
  std::optional<v1::LogBatch> batch = f.store.NextLogs(&cursor);
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->executor_id(), 0);
  EXPECT_THAT(batch->lines(), ElementsAre("b3", "a4", "b4"));
  batch = f.store.NextLogs(&cursor);
  ASSERT_TRUE(batch.has_value());
  EXPECT_THAT(batch->lines(), ElementsAre("c2", "c3", "c4"));
  EXPECT_FALSE(f.store.NextLogs(&cursor).has_value());
  EXPECT_FALSE(f.store.HasLogs(cursor));

  for (int i = 0; i < 15; ++i) {
    f.store.AddLog(1, 0, v1::LogLines::SOURCE_STDOUT, {absl::StrCat("d", i)}, 0);
  }
  f.store.AddLog(0, 0, v1::LogLines::SOURCE_STDERR, {"e"}, 0);
  EXPECT_TRUE(f.store.HasLogs(cursor));
  batch = f.store.NextLogs(&cursor);
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->executor_id(), 1);
  EXPECT_EQ(batch->dropped(), 5u);
  EXPECT_EQ(batch->lines_size(), 10);
  EXPECT_EQ(batch->lines(0), "d5");
  batch = f.store.NextLogs(&cursor);
  ASSERT_TRUE(batch.has_value());
  EXPECT_THAT(batch->lines(), ElementsAre("e"));
  EXPECT_FALSE(f.store.NextLogs(&cursor).has_value());
}

TEST(ViewStoreTest, ASampleOfAnEarlierAttemptIsIgnoredAndAnewOneForgetsTheOld) {
  Fixture f;
  f.store.SetSlot(Slot(0, SlotState::kRunning, 0));
  f.store.SetSample(0, Sample(1, 0));
  ViewCursor cursor = f.store.Resume({});
  (void)f.store.Next(&cursor);
  f.store.SetSlot(Slot(0, SlotState::kConnected, 1));
  f.store.SetSample(0, Sample(2, 0));
  v1::WatchUpdate update = f.store.Next(&cursor);
  ASSERT_EQ(update.nodes_size(), 1);
  EXPECT_FALSE(update.nodes(0).has_sample());
  f.store.SetSample(0, Sample(3, 1));
  update = f.store.Next(&cursor);
  EXPECT_EQ(update.nodes(0).sample().process().rss_bytes(), 3u);
}

TEST(ViewStoreTest, AReaderFromBeforeForgottenRemovalsGetsASnapshot) {
  ViewLimits limits;
  limits.removed_feeds = 2;
  Fixture f(1, limits);
  FeedSummary feed;
  for (int i = 0; i < 4; ++i) {
    feed.feed_id = absl::StrCat("f", i);
    f.store.SetFeed(feed);
  }
  ViewCursor cursor = f.store.Resume({});
  EXPECT_EQ(f.store.Next(&cursor).feeds_size(), 4);
  f.store.RemoveFeed("f0");
  v1::WatchUpdate update = f.store.Next(&cursor);
  EXPECT_FALSE(update.snapshot());
  EXPECT_THAT(update.removed_feeds(), ElementsAre("f0"));
  f.store.RemoveFeed("f1");
  f.store.RemoveFeed("f2");
  f.store.RemoveFeed("f3");
  update = f.store.Next(&cursor);
  EXPECT_TRUE(update.snapshot());
  EXPECT_EQ(update.feeds_size(), 0);
}

// What a view holds, made comparable.
std::string Describe(const ClusterView& view) {
  std::string text = view.cluster().ShortDebugString();
  for (const v1::SlotStatus& slot : view.slots()) {
    absl::StrAppend(&text, "\n", slot.ShortDebugString());
  }
  for (const v1::WatchUpdate::Node& node : view.nodes()) {
    std::map<std::string, std::string> endpoints(node.endpoints().begin(), node.endpoints().end());
    v1::WatchUpdate::Node rest = node;
    rest.clear_endpoints();
    absl::StrAppend(&text, "\n", rest.ShortDebugString());
    for (const auto& [name, url] : endpoints) absl::StrAppend(&text, " ", name, "=", url);
  }
  absl::StrAppend(&text, "\n", view.spec_epoch(), " ", view.spec().AsText());
  for (const auto& [id, feed] : view.feeds()) {
    absl::StrAppend(&text, "\n", feed.ShortDebugString());
  }
  return text;
}

// Random changes, readers that come, go, resume and sleep at random: what each has folded is what a
// snapshot says, and every event, metric and line has come once or was counted as missed.
TEST(ViewStoreTest, FoldingUpdatesAlwaysGivesTheSnapshot) {
  for (int seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&random](int n) { return static_cast<int>(random() % n); };
    ViewLimits limits;
    limits.events = 8;
    limits.metrics = 8;
    limits.log_lines_per_node = 6;
    limits.log_bytes = 6000;
    limits.removed_feeds = 3;
    limits.membership_changes = 3;
    limits.checkpoints = 6;
    const int num_slots = 5;
    Fixture f(num_slots, limits);
    struct Reader {
      ViewCursor cursor;
      ClusterView view;
      uint64_t events = 0, lines = 0, metrics = 0;  // come or missed
      uint64_t missed_before = 0;                   // events there were before it began
    };
    std::vector<Reader> readers(4);
    for (Reader& reader : readers) reader.cursor = f.store.Resume({.log_lines = 100});
    uint64_t epoch = 0, events = 0, lines = 0, metrics = 0;
    std::vector<uint32_t> attempts(num_slots, 0);
    for (int step = 0; step < 400; ++step) {
      f.clock.Advance(absl::Milliseconds(below(100)));
      const int id = below(num_slots);
      switch (below(11)) {
        case 0:
          if (below(4) == 0) ++attempts[id];
          f.store.SetSlot(Slot(id, static_cast<SlotState>(below(kNumSlotStates)), attempts[id]));
          break;
        case 1:
        case 2:
          f.store.SetSample(id, Sample(below(1000), attempts[id]));
          break;
        case 3:
          f.store.SetEndpoints(id, {{"tb", absl::StrCat("http://", below(9))}});
          break;
        case 4:
          if (epoch == 0) {
            ClusterSpec spec;
            for (int i = 0; i < num_slots; ++i) {
              ASSERT_THAT(spec.SetTask("worker", i, "h:1"), IsOk());
            }
            f.store.SetSpec(spec, ++epoch);
          } else {
            f.store.ChangeSpec({"worker", id}, absl::StrCat("h:", below(99)), 0, ++epoch);
          }
          break;
        case 5: {
          FeedSummary feed;
          feed.feed_id = absl::StrCat("feed", below(4));
          feed.rows_received = below(1000);
          f.store.SetFeed(feed);
          break;
        }
        case 6:
          f.store.RemoveFeed(absl::StrCat("feed", below(4)));
          break;
        case 7:
          f.store.AddEvent(TextEvent(absl::StrCat(events++)));
          break;
        case 8:
          f.store.AddMetric(id, 0, "m", step, step, f.clock.Now());
          ++metrics;
          break;
        case 9: {
          std::vector<std::string> batch(1 + below(3), "line");
          lines += batch.size();
          f.store.AddLog(id, 0, v1::LogLines::SOURCE_STDOUT, batch, 0);
          break;
        }
        case 10:
          f.store.UpdateCluster([&](v1::ClusterInfo* info) { info->set_fenced_updates(step); });
          break;
      }
      Reader& reader = readers[below(4)];
      if (below(3) != 0) continue;
      if (below(5) == 0) {  // its connection broke, and it comes again
        reader.cursor = f.store.Resume({.log_lines = 100,
                                        .resume_after = reader.view.seq(),
                                        .incarnation = reader.view.incarnation()});
        if (reader.cursor.seq == 0) reader.view = ClusterView();
      }
      const bool began = reader.cursor.seq == 0;
      const v1::WatchUpdate update = f.store.Next(&reader.cursor);
      ASSERT_THAT(reader.view.Apply(update), IsOk());
      ViewCursor fresh = f.store.Resume({});
      ClusterView whole;
      ASSERT_THAT(whole.Apply(f.store.Next(&fresh)), IsOk());
      ASSERT_EQ(Describe(reader.view), Describe(whole));
      if (began) {
        reader.events = events;
        reader.metrics = metrics;
        reader.lines = lines;
        continue;
      }
      if (update.snapshot()) {  // it was resynchronised: it has what there is
        reader.events = events;
        reader.metrics = metrics;
        reader.lines = lines;
        continue;
      }
      reader.events += update.events_size() + update.dropped_events();
      reader.metrics += update.metrics_size() + update.dropped_metrics();
      reader.lines += Lines(update).size() + update.dropped_log_lines();
      ASSERT_EQ(reader.events, events);
      ASSERT_EQ(reader.metrics, metrics);
      ASSERT_EQ(reader.lines, lines);
      if (update.events_size() > 0) {
        ASSERT_EQ(update.events(update.events_size() - 1).number(), events - 1);
      }
    }
  }
}

}  // namespace
}  // namespace millrace
