#include "core/cli/top/top_tables.h"

#include <array>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/client/cluster_view.h"
#include "dashboard/model/format.h"
#include "dashboard/model/log_ring.h"
#include "dashboard/model/metric_book.h"
#include "dashboard/model/timeline.h"

namespace millrace::cli {
namespace {

using dashboard::DashboardModel;
using dashboard::FeedState;
using dashboard::FormatBytes;
using dashboard::FormatClock;
using dashboard::FormatCount;
using dashboard::FormatFraction;
using dashboard::FormatNumber;
using dashboard::FormatSi;
using dashboard::FormatSpan;
using dashboard::Known;
using dashboard::LogLine;
using dashboard::Matches;
using dashboard::MetricSeries;
using dashboard::SortKey;
using dashboard::TimelineEvent;

std::vector<int64_t> Numbers(size_t from, size_t to) {
  std::vector<int64_t> rows;
  rows.reserve(to - from);
  for (size_t i = from; i < to; ++i) rows.push_back(static_cast<int64_t>(i));
  return rows;
}

// ---- feeds ----

enum FeedColumn {
  kFeedQueue,
  kFeedDone,
  kFeedProgress,
  kFeedRate,
  kFeedRows,
  kFeedAgain,
  kFeedFailed,
  kFeedLeft
};
constexpr TopColumn kFeedsColumns[] = {
    {.name = "FEED", .width = 14},
    {.name = "PARTITIONS", .width = 16, .number = true},
    {.name = "DONE", .width = 5, .number = true, .most_first = true},
    {.name = "ROWS/S", .width = 7, .number = true, .most_first = true},
    {.name = "ROWS", .width = 7, .number = true, .most_first = true},
    {.name = "FED AGAIN", .width = 9, .number = true, .most_first = true},
    {.name = "FAILED", .width = 6, .number = true, .most_first = true},
    {.name = "LEFT", .width = 0}};

class FeedsTable final : public TopTable {
 public:
  absl::string_view name() const override { return "Feeds"; }
  std::span<const TopColumn> columns() const override { return kFeedsColumns; }

  std::vector<int64_t> Rows(const DashboardModel& model) const override {
    return Numbers(0, model.feeds().size());
  }

  SortKey KeyOf(const DashboardModel& model, int64_t row, int column) const override {
    const FeedState& feed = FeedOf(model, row);
    switch (column) {
      case kFeedDone:
        return {.number = static_cast<double>(feed.info.done())};
      case kFeedProgress:
        return {.number = feed.progress};
      case kFeedRate:
        return {.number = feed.rows_per_second};
      case kFeedRows:
        return {.number = static_cast<double>(feed.info.rows_received())};
      case kFeedAgain:
        return {.number = static_cast<double>(feed.info.partitions_refed())};
      case kFeedFailed:
        return {.number = static_cast<double>(feed.info.failed())};
      case kFeedLeft:
        return {.number =
                    feed.info.closed() ? dashboard::kUnknown : absl::ToDoubleSeconds(feed.eta)};
      default:
        return {.number = static_cast<double>(row)};
    }
  }

  TopCell CellOf(const DashboardModel& model, int64_t row, int column) const override {
    const FeedState& feed = FeedOf(model, row);
    switch (column) {
      case kFeedQueue:
        return {absl::StrCat(feed.info.feed_id(), " ", feed.info.queue())};
      case kFeedDone:
        return {absl::StrCat(FormatCount(feed.info.done()), " of ",
                             FormatCount(feed.info.partitions()))};
      case kFeedProgress:
        return {FormatFraction(feed.progress)};
      case kFeedRate:
        return {Known(feed.rows_per_second) ? FormatSi(feed.rows_per_second, "") : "–"};
      case kFeedRows:
        return {FormatSi(static_cast<double>(feed.info.rows_received()), "")};
      case kFeedAgain:
        return {FormatCount(feed.info.partitions_refed()),
                feed.info.partitions_refed() > 0 ? Style::kYellow : Style::kPlain};
      case kFeedFailed:
        return {FormatCount(feed.info.failed()),
                feed.info.failed() > 0 ? Style::kRed : Style::kPlain};
      default:
        return {feed.info.closed() ? "closed" : FormatSpan(feed.eta)};
    }
  }

  bool Holds(const DashboardModel& model, int64_t row, absl::string_view text) const override {
    return Matches(CellOf(model, row, kFeedQueue).text, text);
  }

  std::string WhyEmpty(const DashboardModel& model) const override {
    return model.cluster().input_mode == v1::INPUT_MODE_DIRECT
               ? "InputMode DIRECT: nodes read their own data, there is nothing to feed."
               : "No feed yet.";
  }

 private:
  static const FeedState& FeedOf(const DashboardModel& model, int64_t row) {
    return std::next(model.feeds().begin(), static_cast<std::ptrdiff_t>(row))->second;
  }
};

// ---- metrics ----

enum MetricColumn { kMetricName, kMetricNode, kMetricStep, kMetricValue, kMetricTime };
constexpr TopColumn kMetricsColumns[] = {
    {.name = "METRIC", .width = 24},
    {.name = "NODE", .width = 12},
    {.name = "STEP", .width = 10, .number = true, .most_first = true},
    {.name = "VALUE", .width = 12, .number = true, .most_first = true},
    {.name = "AGE", .width = 0}};

// The newest value of each series.
class MetricsTable final : public TopTable {
 public:
  absl::string_view name() const override { return "Metrics"; }
  std::span<const TopColumn> columns() const override { return kMetricsColumns; }

  std::vector<int64_t> Rows(const DashboardModel& model) const override {
    return Numbers(0, SeriesOf(model).size());
  }

  SortKey KeyOf(const DashboardModel& model, int64_t row, int column) const override {
    const MetricSeries& series = *SeriesOf(model)[static_cast<size_t>(row)];
    switch (column) {
      case kMetricNode:
        return {.number = static_cast<double>(series.executor_id())};
      case kMetricStep:
        return {.number = static_cast<double>(series.samples().back().step)};
      case kMetricValue:
        return {.number = series.samples().back().value};
      case kMetricTime:
        return {.number = absl::ToDoubleSeconds(model.now() - series.samples().back().time)};
      default:
        return {.text = series.name()};
    }
  }

  TopCell CellOf(const DashboardModel& model, int64_t row, int column) const override {
    const MetricSeries& series = *SeriesOf(model)[static_cast<size_t>(row)];
    switch (column) {
      case kMetricName:
        return {series.name()};
      case kMetricNode: {
        const std::string node = model.NodeName(series.executor_id());
        return {node, StyleOfRole(node)};
      }
      case kMetricStep:
        return {FormatCount(series.samples().back().step)};
      case kMetricValue:
        return {FormatNumber(series.samples().back().value)};
      default:
        return {dashboard::FormatAge(series.samples().back().time, model.now())};
    }
  }

  bool Holds(const DashboardModel& model, int64_t row, absl::string_view text) const override {
    const MetricSeries& series = *SeriesOf(model)[static_cast<size_t>(row)];
    return Matches(series.name(), text) || Matches(model.NodeName(series.executor_id()), text);
  }

  std::string WhyEmpty(const DashboardModel& /*model*/) const override {
    return "No metrics: no program has reported one.";
  }

 private:
  // Collected once for each state of the model.
  const std::vector<const MetricSeries*>& SeriesOf(const DashboardModel& model) const {
    if (version_ != model.version()) {
      version_ = model.version();
      series_.clear();
      for (const std::string& name : model.metrics().names()) {
        for (const MetricSeries* series : model.metrics().SeriesOf(name)) {
          if (!series->samples().empty()) series_.push_back(series);
        }
      }
    }
    return series_;
  }

  mutable uint64_t version_ = 0;
  mutable std::vector<const MetricSeries*> series_;
};

// ---- events ----

enum EventColumn { kEventTime, kEventKind, kEventNode, kEventText };
constexpr TopColumn kEventsColumns[] = {{.name = "TIME (UTC)", .width = 11},
                                        {.name = "KIND", .width = 10},
                                        {.name = "NODE", .width = 12},
                                        {.name = "EVENT", .width = 0}};

class EventsTable final : public TopTable {
 public:
  absl::string_view name() const override { return "Events"; }
  std::span<const TopColumn> columns() const override { return kEventsColumns; }
  bool is_log() const override { return true; }

  std::vector<int64_t> Rows(const DashboardModel& model) const override {
    return Numbers(0, model.timeline().events().size());
  }

  SortKey KeyOf(const DashboardModel& model, int64_t row, int column) const override {
    const TimelineEvent& event = EventOf(model, row);
    switch (column) {
      case kEventKind:
        return {.text = event.kind};
      case kEventNode:
        return {.number = static_cast<double>(event.executor_id)};
      case kEventText:
        return {.text = event.text};
      default:
        return {.number = static_cast<double>(event.number)};
    }
  }

  TopCell CellOf(const DashboardModel& model, int64_t row, int column) const override {
    const TimelineEvent& event = EventOf(model, row);
    switch (column) {
      case kEventTime:
        return {FormatClock(event.time, absl::UTCTimeZone()), Style::kDim};
      case kEventKind:
        return {event.kind};
      case kEventNode: {
        if (event.executor_id < 0) return {};
        const std::string node = model.NodeName(event.executor_id);
        return {node, StyleOfRole(node)};
      }
      default:
        return {absl::StrCat(event.first_cause ? "first cause: " : "", event.text,
                             event.folded ? " (folded)" : ""),
                event.severity == v1::Event::SEVERITY_ERROR     ? Style::kRed
                : event.severity == v1::Event::SEVERITY_WARNING ? Style::kYellow
                                                                : Style::kPlain};
    }
  }

  bool Holds(const DashboardModel& model, int64_t row, absl::string_view text) const override {
    const TimelineEvent& event = EventOf(model, row);
    return Matches(event.text, text) || Matches(event.kind, text) ||
           (event.executor_id >= 0 && Matches(model.NodeName(event.executor_id), text));
  }

  std::string WhyEmpty(const DashboardModel& /*model*/) const override { return "No events yet."; }

 private:
  static const TimelineEvent& EventOf(const DashboardModel& model, int64_t row) {
    return model.timeline().events()[static_cast<size_t>(row)];
  }
};

// ---- log lines ----

enum LogColumn { kLogTime, kLogNode, kLogText };
constexpr TopColumn kLogsColumns[] = {{.name = "TIME (UTC)", .width = 11},
                                      {.name = "NODE", .width = 12},
                                      {.name = "LINE", .width = 0}};

class LogsTable final : public TopTable {
 public:
  absl::string_view name() const override { return "Logs"; }
  std::span<const TopColumn> columns() const override { return kLogsColumns; }
  bool is_log() const override { return true; }

  std::vector<int64_t> Rows(const DashboardModel& model) const override {
    return Numbers(model.logs().first(), model.logs().end());
  }

  SortKey KeyOf(const DashboardModel& model, int64_t row, int column) const override {
    const LogLine line = model.logs().line(static_cast<uint64_t>(row));
    if (column == kLogNode) return {.number = static_cast<double>(line.executor_id)};
    if (column == kLogText) return {.text = line.text};
    return {.number = static_cast<double>(row)};
  }

  TopCell CellOf(const DashboardModel& model, int64_t row, int column) const override {
    const LogLine line = model.logs().line(static_cast<uint64_t>(row));
    switch (column) {
      case kLogTime:
        return {FormatClock(line.time, absl::UTCTimeZone()), Style::kDim};
      case kLogNode: {
        const std::string node = model.NodeName(line.executor_id);
        return {node, StyleOfRole(node)};
      }
      default:
        return {std::string(line.text), line.level == dashboard::LogLevel::kError ? Style::kRed
                                        : line.level == dashboard::LogLevel::kWarning
                                            ? Style::kYellow
                                            : Style::kPlain};
    }
  }

  bool Holds(const DashboardModel& model, int64_t row, absl::string_view text) const override {
    const LogLine line = model.logs().line(static_cast<uint64_t>(row));
    return Matches(line.text, text) || Matches(model.NodeName(line.executor_id), text);
  }

  std::string WhyEmpty(const DashboardModel& /*model*/) const override { return "No lines yet."; }
};

}  // namespace

std::vector<std::unique_ptr<TopTable>> MakeTopTables() {
  std::vector<std::unique_ptr<TopTable>> tables;
  tables.push_back(MakeNodesTable());
  tables.push_back(MakeQueuesTable());
  tables.push_back(std::make_unique<FeedsTable>());
  tables.push_back(MakeGpusTable());
  tables.push_back(std::make_unique<MetricsTable>());
  tables.push_back(std::make_unique<EventsTable>());
  tables.push_back(std::make_unique<LogsTable>());
  return tables;
}

}  // namespace millrace::cli
