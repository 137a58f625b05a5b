#include "core/cli/top/top_view.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "core/proto/time_proto.h"
#include "core/proto/watch.pb.h"
#include "dashboard/model/dashboard_model.h"
#include "dashboard/source/demo_source.h"
#include "dashboard/source/follower.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::cli {
namespace {

using dashboard::DashboardModel;
using dashboard::DemoOptions;
using dashboard::LinkState;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const absl::Time kStarted =
    absl::FromCivil(absl::CivilSecond(2026, 1, 1, 10, 40, 0), absl::UTCTimeZone());
const GridOptions kSize = {.columns = 80, .rows = 24};
const GridOptions kWide = {.columns = 160, .rows = 40};

// A simulated cluster, as it is some time after its start.
class Cluster {
 public:
  Cluster(int nodes, const std::string& scenario, double seconds)
      : model_({.zone = absl::UTCTimeZone()}), now_(kStarted + absl::Seconds(seconds)) {
    DemoOptions options;
    options.nodes = nodes;
    options.gpus_per_node = nodes > 100 ? 0 : 2;
    options.scenario = scenario;
    options.begin_at = absl::Seconds(seconds);
    options.started = kStarted;
    auto source = MakeDemoSource(options);
    EXPECT_THAT(source, IsOk());
    source_ = *std::move(source);
    follower_.emplace(source_.get(), &model_);
    Pass(absl::ZeroDuration());
  }

  void Pass(absl::Duration time) {
    now_ += time;
    do {
      follower_->Poll(now_, absl::Hours(1));
    } while (follower_->behind());
    model_.Settle();
  }

  void SetLink(LinkState::Kind kind, const std::string& reason) {
    model_.Apply({.arrived = now_, .link = {.kind = kind, .since = now_, .reason = reason}});
  }

  [[nodiscard]] const DashboardModel& model() const { return model_; }

 private:
  DashboardModel model_;
  absl::Time now_;
  std::unique_ptr<dashboard::UpdateSource> source_;
  std::optional<dashboard::Follower> follower_;
};

class Viewer {
 public:
  explicit Viewer(const DashboardModel& model) : model_(model) {}

  // Text, key by key.
  bool Type(absl::string_view text) {
    bool go_on = true;
    for (const char c : text) {
      go_on = view_.Handle({KeyCode::kText, std::string(1, c)}, model_) && go_on;
    }
    return go_on;
  }
  bool Press(KeyCode code, int times = 1) {
    bool go_on = true;
    for (int i = 0; i < times; ++i) {
      static_cast<void>(Text());  // as often as a person sees it
      go_on = view_.Handle({code, ""}, model_) && go_on;
    }
    return go_on;
  }
  std::string Text(const GridOptions& options = kSize) {
    return view_.Draw(model_, options).Text();
  }
  // The rows of the table, below its header, which begins with `head`.
  std::vector<std::string> Rows(absl::string_view head = "NODE",
                                const GridOptions& options = kSize) {
    const std::vector<std::string> lines = absl::StrSplit(Text(options), '\n');
    std::vector<std::string> rows;
    bool in_table = false;
    for (size_t i = 0; i + 2 < lines.size(); ++i) {  // but the keys
      if (in_table && !lines[i].empty()) rows.push_back(lines[i]);
      in_table = in_table || absl::StartsWith(lines[i], head);
    }
    return rows;
  }
  TopView& view() { return view_; }

 private:
  const DashboardModel& model_;
  TopView view_;
};

std::string FirstWord(absl::string_view line) {
  return std::string(line.substr(0, line.find(' ')));
}

// Compares with golden/NAME.txt. What was drawn lies beside the test's other outputs.
void ExpectGolden(const std::string& name, const std::string& text) {
  const std::string file = absl::StrCat("core/cli/top/golden/", name, ".txt");
  const absl::StatusOr<std::string> golden = ReadFile(file);
  if (const char* const folder = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR"); folder != nullptr) {
    EXPECT_THAT(WriteFileAtomic(absl::StrCat(folder, "/", name, ".txt"), text), IsOk());
  }
  ASSERT_THAT(golden, IsOk());
  EXPECT_EQ(text, *golden) << name;
}

TEST(TopViewTest, ShowsTheSentencesAndEachTable) {
  const Cluster cluster(8, "oom-cascade", 60);
  Viewer viewer(cluster.model());
  const std::pair<const char*, const char*> kTables[] = {
      {"1", "nodes"},   {"2", "queues"}, {"3", "feeds"}, {"4", "gpus"},
      {"5", "metrics"}, {"6", "events"}, {"7", "logs"}};
  for (const auto& [key, name] : kTables) {
    viewer.Type(key);
    ExpectGolden(name, viewer.Text());
  }
  viewer.Type("1");
  ExpectGolden("nodes_wide", viewer.Text(kWide));
  ExpectGolden("nodes_small", viewer.Text({.columns = 40, .rows = 10}));
  ExpectGolden("nodes_ascii", viewer.Text({.columns = 80, .rows = 24, .utf8 = false}));
}

TEST(TopViewTest, ShowsHelpTheSentencesInFullAndARowInFull) {
  const Cluster cluster(8, "slow-source", 60);
  Viewer viewer(cluster.model());
  viewer.Type("h");
  ExpectGolden("help", viewer.Text());
  viewer.Type("xv");
  ExpectGolden("sentences", viewer.Text());
  viewer.Type("x");
  viewer.Press(KeyCode::kDown, 2);
  viewer.Press(KeyCode::kEnter);
  ExpectGolden("row", viewer.Text());
  viewer.Press(KeyCode::kEscape);
  EXPECT_THAT(viewer.Text(), HasSubstr("[1 Nodes 8]"));
}

TEST(TopViewTest, PrintsAllOfItOnce) {
  const Cluster cluster(8, "slow-node", 60);
  ExpectGolden("once", OnceText(cluster.model(), {.columns = 200, .rows = 1}));
}

TEST(TopViewTest, SortsByColumnsAndTheOtherWayRound) {
  const Cluster cluster(20, "", 60);
  Viewer viewer(cluster.model());
  EXPECT_EQ(FirstWord(viewer.Rows().front()), "ps:0");
  viewer.Type("I");
  EXPECT_EQ(FirstWord(viewer.Rows().front()), "worker:16");
  viewer.Type("I");
  // To the column of CPU: the greatest first.
  viewer.Type(">>>>");
  EXPECT_THAT(viewer.Text(), HasSubstr("CPU▼"));
  const auto cpu = [](const std::string& row) {
    const size_t percent = row.find('%');
    return std::stod(row.substr(row.rfind(' ', percent)));
  };
  std::vector<std::string> rows = viewer.Rows();
  ASSERT_GE(rows.size(), 10);
  for (size_t i = 1; i < rows.size(); ++i) EXPECT_GE(cpu(rows[i - 1]), cpu(rows[i]));
  viewer.Type("I");
  rows = viewer.Rows();
  EXPECT_THAT(viewer.Text(), HasSubstr("CPU▲"));
  for (size_t i = 1; i < rows.size(); ++i) EXPECT_LE(cpu(rows[i - 1]), cpu(rows[i]));
  // Back to the first one, and beyond it to the last, which then is on the screen.
  viewer.Type("<<<<");
  EXPECT_THAT(viewer.Text(), HasSubstr("NODE▲"));
  viewer.Type("<");
  EXPECT_THAT(viewer.Text(), HasSubstr("ERROR▲"));
}

// Made once: that takes longer than what is done with it.
const Cluster& TenThousandNodes() {
  static const auto* const cluster = new Cluster(10'000, "huge", 3);
  return *cluster;
}

TEST(TopViewTest, MovesThroughTenThousandRows) {
  const Cluster& cluster = TenThousandNodes();
  Viewer viewer(cluster.model());
  EXPECT_THAT(viewer.Text(), HasSubstr("[1 Nodes 10,000]"));
  const std::vector<std::string> first = viewer.Rows();
  const size_t page = first.size();
  EXPECT_EQ(FirstWord(first.front()), "ps:0");
  viewer.Press(KeyCode::kPageDown);
  viewer.Press(KeyCode::kDown);
  EXPECT_NE(viewer.Rows().front(), first.front());
  viewer.Press(KeyCode::kEnd);
  const std::vector<std::string> last = viewer.Rows();
  EXPECT_EQ(last.size(), page);
  EXPECT_EQ(FirstWord(last.back()), cluster.model().nodes().back().name);
  viewer.Press(KeyCode::kHome);
  EXPECT_EQ(viewer.Rows(), first);
  viewer.Press(KeyCode::kUp);
  EXPECT_EQ(viewer.Rows(), first);
}

TEST(TopViewTest, FiltersAndSearches) {
  const Cluster& cluster = TenThousandNodes();
  Viewer viewer(cluster.model());
  viewer.Press(KeyCode::kF4);
  viewer.Type("WORKER:123");
  EXPECT_THAT(viewer.Text(), HasSubstr("Filter: WORKER:123"));
  EXPECT_THAT(viewer.Text(), HasSubstr("[1 Nodes 11 of 10,000]"));
  viewer.Press(KeyCode::kBackspace);
  EXPECT_THAT(viewer.Text(), HasSubstr("[1 Nodes 111 of 10,000]"));
  viewer.Press(KeyCode::kEnter);
  for (const std::string& row : viewer.Rows()) EXPECT_THAT(row, StartsWith("worker:12"));
  // In what is left.
  viewer.Type("/:1299");
  EXPECT_THAT(viewer.Text(), HasSubstr("Search: :1299"));
  viewer.Press(KeyCode::kEnter);
  viewer.Press(KeyCode::kEnter);
  EXPECT_THAT(viewer.Text(), StartsWith("NODE        worker:1299"));
  viewer.Press(KeyCode::kEscape);
  // Nothing has it.
  viewer.Type("\\xyz");
  EXPECT_THAT(viewer.Text(), HasSubstr("[1 Nodes 0 of 10,000]"));
  EXPECT_THAT(viewer.Text(), HasSubstr("No row has this text."));
  viewer.Press(KeyCode::kEscape);
  EXPECT_THAT(viewer.Text(), HasSubstr("[1 Nodes 10,000]"));
}

TEST(TopViewTest, MovesSidewaysWithTheFirstColumnInPlace) {
  const Cluster cluster(8, "", 60);
  Viewer viewer(cluster.model());
  EXPECT_THAT(viewer.Text(), Not(HasSubstr("THREADS")));
  viewer.Press(KeyCode::kRight, 8);
  EXPECT_THAT(viewer.Text(), HasSubstr("THREADS"));
  EXPECT_THAT(viewer.Text(), HasSubstr("NODE"));
  viewer.Press(KeyCode::kLeft, 20);
  EXPECT_THAT(viewer.Text(), HasSubstr("STATE"));
}

TEST(TopViewTest, FollowsTheLastEventUnlessSomebodyLooksAtOthers) {
  Cluster cluster(8, "flapping", 40);
  Viewer viewer(cluster.model());
  viewer.Type("6");
  const std::string last = viewer.Rows("TIME").back();
  cluster.Pass(absl::Seconds(20));
  const std::string next = viewer.Rows("TIME").back();
  EXPECT_NE(next, last);
  viewer.Press(KeyCode::kUp);
  cluster.Pass(absl::Minutes(3));
  EXPECT_THAT(viewer.Rows("TIME"), Contains(next));
  viewer.Press(KeyCode::kEnd);
  EXPECT_THAT(viewer.Rows("TIME"), Not(Contains(next)));
}

TEST(TopViewTest, SaysWhenTheClusterHasEndedAndKeepsWhatWasKnown) {
  Cluster cluster(8, "", 60);
  Viewer viewer(cluster.model());
  const size_t rows = viewer.Rows().size();
  cluster.SetLink(LinkState::Kind::kEnded, "");
  EXPECT_THAT(viewer.Text(), HasSubstr("The cluster has ended; this is its last state."));
  EXPECT_EQ(viewer.Rows().size(), rows);
  cluster.SetLink(LinkState::Kind::kLost, "nobody answers");
  EXPECT_THAT(viewer.Text(),
              HasSubstr("The driver is gone; this is what was heard last. nobody answers"));
  cluster.SetLink(LinkState::Kind::kRefused, "wrong token");
  EXPECT_THAT(viewer.Text(), HasSubstr("does not let this viewer look any more. wrong token"));
}

TEST(TopViewTest, ATinyTerminalSaysSo) {
  const Cluster cluster(8, "", 60);
  Viewer viewer(cluster.model());
  EXPECT_EQ(viewer.Text({.columns = 30, .rows = 3}), "too small: 40x10 needed\n\n\n");
  for (const auto& [columns, rows] : {std::pair(1, 1), {5, 1}, {1, 50}, {39, 24}, {80, 9}}) {
    EXPECT_EQ(viewer.view().Draw(cluster.model(), {.columns = columns, .rows = rows}).columns(),
              columns);
  }
}

TEST(TopViewTest, NothingIsKnownAtFirst) {
  const DashboardModel model;
  Viewer viewer(model);
  EXPECT_THAT(viewer.Text(), StartsWith("millrace\n"));
  EXPECT_THAT(viewer.Text(), HasSubstr("Waiting for the coordinator."));
  for (const char* table : {"1", "2", "3", "4", "5", "6", "7"}) {
    viewer.Type(table);
    EXPECT_THAT(viewer.Text(), HasSubstr(absl::StrCat("[", table)));
    EXPECT_TRUE(viewer.Press(KeyCode::kEnter));
    EXPECT_TRUE(viewer.Press(KeyCode::kDown));
    EXPECT_TRUE(viewer.Type("n"));
  }
}

TEST(TopViewTest, WhatNodesSayIsEscaped) {
  DashboardModel model;
  auto watch = std::make_shared<v1::WatchUpdate>();
  watch->set_snapshot(true);
  *watch->mutable_time() = TimeToProto(kStarted);
  watch->set_seq(1);
  watch->set_incarnation("one");
  v1::SlotStatus* slot = watch->add_slots();
  slot->set_job_name("worker");
  slot->set_host("h\x1b[2J");
  slot->set_state(v1::SLOT_STATE_FAILED);
  slot->mutable_error()->set_message("\x1b]0;title\x07");
  model.Apply({.arrived = kStarted, .watch = watch, .link = {.kind = LinkState::Kind::kLive}});
  model.Advance(kStarted);
  TopView view;
  const std::string bytes = Changes(nullptr, view.Draw(model, kWide));
  EXPECT_THAT(bytes, HasSubstr("h\\x1b[2J"));
  EXPECT_THAT(bytes, HasSubstr("\\x1b]0;title\\x07"));
  EXPECT_THAT(bytes, Not(HasSubstr("\x1b]")));
}

TEST(TopViewTest, KeysQuitPauseAndGoFromTableToTable) {
  const Cluster cluster(8, "", 60);
  Viewer viewer(cluster.model());
  EXPECT_FALSE(viewer.Type("q"));
  EXPECT_FALSE(viewer.Press(KeyCode::kF10));
  viewer.Type("?");
  EXPECT_FALSE(viewer.Type("q"));
  EXPECT_FALSE(viewer.view().paused());
  viewer.Type(" ");
  EXPECT_TRUE(viewer.view().paused());
  EXPECT_THAT(viewer.Text(), HasSubstr("PAUSED"));
  viewer.Type(" ");
  EXPECT_FALSE(viewer.view().paused());
  viewer.Press(KeyCode::kTab);
  EXPECT_THAT(viewer.Text(), HasSubstr("[2 Queues"));
  viewer.Press(KeyCode::kBackTab, 2);
  EXPECT_THAT(viewer.Text(), HasSubstr("[7 Logs"));
  // In a prompt they are text.
  viewer.Type("\\");
  EXPECT_TRUE(viewer.Type("q 1"));
  EXPECT_THAT(viewer.Text(), HasSubstr("Filter: q 1"));
}

TEST(TopViewTest, ALittleChangeIsAFewBytes) {
  Cluster cluster(8, "", 60);
  TopView view;
  const TextGrid before = view.Draw(cluster.model(), kSize);
  const size_t all = Changes(nullptr, before).size();
  view.Handle({KeyCode::kDown, ""}, cluster.model());
  const TextGrid moved = view.Draw(cluster.model(), kSize);
  EXPECT_LT(Changes(&before, moved).size(), all / 5);
  EXPECT_THAT(Changes(&before, moved), Not(HasSubstr("\x1b[2J")));
}

}  // namespace
}  // namespace millrace::cli
