#include "dashboard/report/html_report.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "core/proto/time_proto.h"
#include "dashboard/report/html_text.h"
#include "dashboard/source/demo_source.h"
#include "dashboard/source/follower.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::dashboard {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kEvil[] = "</pre><script>alert(1)</script><img src=x onerror='alert(2)'>\"&";

const absl::Time kStarted =
    absl::FromCivil(absl::CivilSecond(2026, 1, 1, 10, 40, 0), absl::UTCTimeZone());

ModelOptions Utc() {
  ModelOptions options;
  options.zone = absl::UTCTimeZone();
  return options;
}

void Play(DemoOptions options, DashboardModel* model) {
  options.started = kStarted;
  options.begin_at = absl::Seconds(60);
  auto source = MakeDemoSource(options);
  ASSERT_THAT(source, IsOk());
  Follower follower(source->get(), model);
  while (follower.Poll(kStarted + absl::Seconds(60))) {
  }
  model->Settle();
}

std::string ReportOf(const DashboardModel& model) {
  return HtmlReport(model, {.source = "run.mrec"});
}

size_t CountOf(absl::string_view text, absl::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != absl::string_view::npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

TEST(EscapeHtmlTest, LeavesNothingThatABrowserWouldTakeForMarkup) {
  EXPECT_EQ(EscapeHtml("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(EscapeHtml("one\ntwo\x1b[31m\xff"), "one\\ntwo\\x1b[31m\\xff");
  EXPECT_EQ(EscapeHtml("123456789", 6), "123...");
  EXPECT_EQ(EscapeHtml("grün – ✓"), "grün – ✓");
}

TEST(HtmlReportTest, SaysWhatTheWindowSays) {
  DashboardModel model(Utc());
  Play({.nodes = 8, .scenario = "oom-cascade"}, &model);
  const std::string page = ReportOf(model);
  const Verdict& verdict = model.verdict();
  for (const VerdictSentence* sentence : {&verdict.start, &verdict.gpus, &verdict.failure}) {
    EXPECT_THAT(page, HasSubstr(EscapeHtml(sentence->text)));
  }
  EXPECT_THAT(page,
              AllOf(HasSubstr("First cause: "), HasSubstr("run.mrec"), HasSubstr("rows received"),
                    HasSubstr("GPUs, mean utilisation"), HasSubstr("nodes by state"),
                    HasSubstr("What they wrote last"), HasSubstr("61.8 GiB of 62.0 GiB in use")));
  for (const NodeState& node : model.nodes()) {
    EXPECT_THAT(page, HasSubstr(absl::StrCat(">", node.name, "</td>")));
  }
}

TEST(HtmlReportTest, MarksWhatHappenedOnEveryPicture) {
  DashboardModel model(Utc());
  Play({.nodes = 8, .scenario = "flapping"}, &model);
  const std::string page = ReportOf(model);
  ASSERT_GT(CountOf(page, "<svg"), 4);
  EXPECT_GE(CountOf(page, "<g class=\"mark caution\">"), CountOf(page, "<svg"));
  EXPECT_THAT(page, HasSubstr("checksum mismatch"));
}

TEST(HtmlReportTest, NeedsNothingButItself) {
  DashboardModel model(Utc());
  Play({.nodes = 8, .scenario = "oom-cascade"}, &model);
  const std::string page = ReportOf(model);
  EXPECT_THAT(page,
              AllOf(HasSubstr("default-src 'none'"), Not(HasSubstr("://")), Not(HasSubstr("url(")),
                    Not(HasSubstr("src=\"")), Not(HasSubstr("href")), Not(HasSubstr("@import"))));
}

TEST(HtmlReportTest, NamesTheClusterAndItsProgramWithItsArguments) {
  v1::WatchUpdate watch;
  watch.set_snapshot(true);
  watch.set_incarnation("i");
  *watch.mutable_time() = TimeToProto(kStarted);
  watch.mutable_cluster()->set_program("/usr/bin/python3");
  const auto page = [&watch] {
    SourceUpdate update;
    update.arrived = kStarted;
    update.watch = std::make_shared<const v1::WatchUpdate>(watch);
    DashboardModel model(Utc());
    model.Apply(update);
    return ReportOf(model);
  };
  EXPECT_THAT(page(), AllOf(HasSubstr("<dt>program</dt><dd>/usr/bin/python3</dd>"),
                            Not(HasSubstr("<dt>name</dt>"))));
  watch.mutable_cluster()->set_name("digits");
  watch.mutable_cluster()->set_command("python3 train.py --lr 0.1");
  EXPECT_THAT(page(), AllOf(HasSubstr("<dt>name</dt><dd>digits</dd>"),
                            HasSubstr("<dt>program</dt><dd>python3 train.py --lr 0.1</dd>")));
}

TEST(HtmlReportTest, WhateverNodesSayOrAreCalledIsText) {
  v1::WatchUpdate watch;
  watch.set_snapshot(true);
  watch.set_incarnation("i");
  *watch.mutable_time() = TimeToProto(kStarted + absl::Seconds(9));
  v1::ClusterInfo& cluster = *watch.mutable_cluster();
  for (const auto set :
       {&v1::ClusterInfo::set_cluster_id<const char*>, &v1::ClusterInfo::set_program<const char*>,
        &v1::ClusterInfo::set_driver_host<const char*>, &v1::ClusterInfo::set_version<const char*>,
        &v1::ClusterInfo::set_log_dir<const char*>, &v1::ClusterInfo::set_name<const char*>,
        &v1::ClusterInfo::set_command<const char*>}) {
    (cluster.*set)(kEvil);
  }
  cluster.set_phase(v1::ClusterInfo::PHASE_FAILED);
  cluster.set_num_slots(1);
  *cluster.mutable_started() = TimeToProto(kStarted);
  cluster.mutable_first_cause()->set_message(kEvil);
  v1::SlotStatus& slot = *watch.add_slots();
  slot.set_job_name(kEvil);
  slot.set_host(kEvil);
  slot.set_state(v1::SLOT_STATE_FAILED);
  slot.mutable_error()->set_message(kEvil);
  v1::StateTime& reached = *slot.add_reached();
  reached.set_state(v1::SLOT_STATE_FAILED);
  *reached.mutable_time() = TimeToProto(kStarted + absl::Seconds(5));
  v1::FeedInfo& feed = *watch.add_feeds();
  feed.set_feed_id(kEvil);
  feed.set_queue(kEvil);
  for (int step = 0; step < 2; ++step) {
    v1::MetricPoint& point = *watch.add_metrics();
    point.set_name(kEvil);
    point.set_value(1);
    point.set_step(step);
    *point.mutable_time() = TimeToProto(kStarted + absl::Seconds(2 + step));
  }
  for (const char* kind : {"failure", "restart", "membership", kEvil}) {
    v1::Event& event = *watch.add_events();
    event.set_number(static_cast<uint64_t>(watch.events_size()));
    event.set_kind(kind);
    event.set_text(kEvil);
    event.set_severity(v1::Event::SEVERITY_ERROR);
    *event.mutable_time() = TimeToProto(kStarted + absl::Seconds(5 + watch.events_size() / 2.0));
  }
  v1::LogBatch& logs = *watch.add_logs();
  logs.add_lines(kEvil);
  *logs.mutable_time() = TimeToProto(kStarted + absl::Seconds(4));
  SourceUpdate update;
  update.arrived = kStarted + absl::Seconds(9);
  update.watch = std::make_shared<const v1::WatchUpdate>(std::move(watch));
  update.link.kind = LinkState::Kind::kEnded;
  update.link.reason = kEvil;
  DashboardModel model(Utc());
  model.Apply(update);
  model.Advance(update.arrived);

  const std::string page = HtmlReport(model, {.source = kEvil});
  EXPECT_EQ(CountOf(page, "<script"), 1);
  EXPECT_EQ(CountOf(page, "</script"), 1);
  EXPECT_THAT(page, AllOf(Not(HasSubstr("<img")), Not(HasSubstr("alert(2)'"))));
  // Each of them is there as what it is.
  EXPECT_GT(CountOf(page, "&lt;script&gt;alert(1)"), 15);
}

TEST(HtmlReportTest, IsBoundedHoweverLargeTheClusterIs) {
  DashboardModel model(Utc());
  Play({.nodes = 10'000, .gpus_per_node = 1, .scenario = "oom-cascade"}, &model);
  const std::string page = ReportOf(model);
  EXPECT_LT(page.size(), size_t{1} << 20);
  EXPECT_THAT(page, AllOf(HasSubstr("1,000 of 10,000"), HasSubstr("48 of 10,000")));
  // Those that failed are among them, wherever they stand.
  int failed = 0;
  for (const NodeState& node : model.nodes()) {
    if (node.state != v1::SLOT_STATE_FAILED) continue;
    ++failed;
    EXPECT_THAT(page, HasSubstr(absl::StrCat(">", node.name, "</td>")));
  }
  EXPECT_EQ(failed, 5);
}

TEST(HtmlReportTest, AModelWithoutDataGivesAPageThatSaysSo) {
  const DashboardModel model(Utc());
  EXPECT_THAT(ReportOf(model), AllOf(HasSubstr("no data"), HasSubstr("</html>")));
}

}  // namespace
}  // namespace millrace::dashboard
