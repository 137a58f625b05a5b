#include "dashboard/report/html_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/text.h"
#include "core/client/cluster_view.h"
#include "dashboard/model/format.h"
#include "dashboard/model/table_rows.h"
#include "dashboard/report/html_text.h"
#include "dashboard/report/page.h"
#include "dashboard/report/time_plot.h"

namespace millrace::dashboard {
namespace {

// Of the past that a model keeps.
constexpr absl::Duration kMostPast = absl::Hours(1);
constexpr int kPoints = 300;
// Of a picture's width: what falls together there has one mark.
constexpr int kMarkPlaces = 150;
constexpr size_t kNameBytes = 80;
constexpr size_t kErrorBytes = 200;

// What colours mean, as in the window.
struct StateGroup {
  const char* css;
  const char* name;
};
constexpr StateGroup kGroups[] = {{"good", "ready or running"}, {"joined", "connected"},
                                  {"waiting", "requested"},     {"caution", "draining"},
                                  {"finished", "finished"},     {"bad", "failed or lost"}};

size_t GroupOf(v1::SlotState state) {
  switch (state) {
    case v1::SLOT_STATE_READY:
    case v1::SLOT_STATE_RUNNING:
      return 0;
    case v1::SLOT_STATE_CONNECTED:
    case v1::SLOT_STATE_REGISTERED:
      return 1;
    case v1::SLOT_STATE_DRAINING:
      return 3;
    case v1::SLOT_STATE_FINISHED:
      return 4;
    case v1::SLOT_STATE_FAILED:
    case v1::SLOT_STATE_LOST:
      return 5;
    default:
      return 2;
  }
}

bool Broken(const NodeState& node) {
  return node.state == v1::SLOT_STATE_FAILED || node.state == v1::SLOT_STATE_LOST;
}

bool StartedAgain(const NodeState& node) { return node.restarts > 0 || node.attempt > 0; }

// The executor ids of at most `most` nodes, in order: those first that failed, then those that were
// started again.
std::vector<int> Chosen(const DashboardModel& model, int most) {
  std::vector<int> chosen;
  for (const NodeState& node : model.nodes()) chosen.push_back(node.executor_id);
  if (chosen.size() <= static_cast<size_t>(most)) return chosen;
  SortRows(&chosen, false, [&](int id) {
    const NodeState& node = model.nodes()[static_cast<size_t>(id)];
    return SortKey{.number = Broken(node) ? 0.0 : StartedAgain(node) ? 1.0 : 2.0};
  });
  chosen.resize(static_cast<size_t>(most));
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

// Makes the sections of one page.
class Report {
 public:
  Report(const DashboardModel& model, const ReportOptions& options)
      : model_(model), options_(options), zone_(model.options().zone) {
    frame_.to = model.now();
    absl::Time begin = std::min(model.cluster().started, frame_.to);
    if (begin == absl::InfinitePast()) begin = frame_.to - absl::Minutes(5);
    frame_.from = std::max(begin, frame_.to - kMostPast);
    frame_.to = std::max(frame_.to, frame_.from + absl::Seconds(1));
    frame_.zone = zone_;
    frame_.marks =
        model.timeline().Marks(frame_.from, frame_.to, (frame_.to - frame_.from) / kMarkPlaces);
  }

  std::string Make() {
    Header();
    Facts();
    States();
    Values();
    Metrics();
    Events();
    Logs();
    Nodes();
    return Page(absl::StrCat("Millrace: ", model_.cluster().cluster_id), html_);
  }

 private:
  void Sentence(const VerdictSentence& sentence) {
    static constexpr struct {
      Mood mood;
      const char* css;
      const char* sign;
    } kSigns[] = {{Mood::kGood, "good", "✓"},
                  {Mood::kBusy, "joined", "…"},
                  {Mood::kWarning, "caution", "▲"},
                  {Mood::kBad, "bad", "✗"}};
    const char* css = "neutral";
    const char* sign = "·";
    for (const auto& each : kSigns) {
      if (each.mood != sentence.mood) continue;
      css = each.css;
      sign = each.sign;
    }
    absl::StrAppend(&html_, "<div class=\"verdict ", css, "\"><span class=\"sign\">", sign,
                    "</span><p>", EscapeHtml(sentence.text));
    if (!sentence.evidence.empty()) {
      absl::StrAppend(&html_, "<br><span class=\"dim small\">", EscapeHtml(sentence.evidence),
                      "</span>");
    }
    html_ += "</p></div>\n";
  }

  void Header() {
    absl::StrAppend(&html_, "<header>\n<h1>Cluster ",
                    EscapeHtml(model_.cluster().cluster_id, kNameBytes), "</h1>\n<p class=\"dim\">",
                    EscapeHtml(options_.source, kNameBytes));
    if (model_.has_data()) {
      absl::StrAppend(&html_, ", as of ", FormatDateTime(model_.now(), zone_));
    } else {
      html_ += ": no data";
    }
    html_ += "</p>\n";
    const Verdict& verdict = model_.verdict();
    for (const VerdictSentence* sentence : {&verdict.start, &verdict.gpus, &verdict.failure}) {
      if (!sentence->text.empty()) Sentence(*sentence);
    }
    for (const Warning* warning : model_.warnings()) {
      absl::StrAppend(&html_, "<p class=\"small dim\">", EscapeHtml(warning->text), "</p>\n");
    }
    const std::string& reason = model_.health().link.reason;
    if (!reason.empty()) {
      absl::StrAppend(&html_, "<p class=\"small dim\">", EscapeHtml(reason), "</p>\n");
    }
    html_ += "</header>\n";
  }

  void Fact(absl::string_view name, absl::string_view value) {
    if (value.empty() || value == "–") return;
    absl::StrAppend(&html_, "<dt>", name, "</dt><dd>", EscapeHtml(value), "</dd>\n");
  }

  void Facts() {
    const ClusterFacts& cluster = model_.cluster();
    html_ += "<section>\n<h2>The cluster</h2>\n<dl>\n";
    Fact("name", cluster.name);
    Fact("program", cluster.shown_program());
    Fact("phase", PhaseText(cluster.phase));
    Fact("started", FormatDateTime(cluster.started, zone_));
    if (cluster.started != absl::InfinitePast()) {
      Fact("lasted", FormatSpan(model_.now() - cluster.started));
      if (model_.all_ran() != absl::InfinitePast()) {
        Fact("all nodes ran after", FormatSpan(model_.all_ran() - cluster.started));
      }
    }
    std::vector<std::string> states;
    for (int state = 1; state < kSlotStates; ++state) {
      const int count = cluster.by_state[static_cast<size_t>(state)];
      if (count == 0) continue;
      states.push_back(
          absl::StrCat(FormatCount(count), " ", SlotStateText(static_cast<v1::SlotState>(state))));
    }
    Fact("slots", absl::StrCat(FormatCount(cluster.num_slots), states.empty() ? "" : ": ",
                               absl::StrJoin(states, ", ")));
    std::map<std::string, int> roles;
    for (const NodeState& node : model_.nodes()) ++roles[node.job];
    std::vector<std::string> jobs;
    for (const auto& [job, count] : roles) {
      if (jobs.size() < 12) jobs.push_back(absl::StrCat(FormatCount(count), " ", job));
    }
    Fact("roles", absl::StrJoin(jobs, ", "));
    Fact("hosts", FormatCount(static_cast<int64_t>(model_.hosts().size())));
    if (!model_.gpus().empty()) {
      Fact("GPUs", absl::StrCat(FormatCount(static_cast<int64_t>(model_.gpus().size())), ", ",
                                EscapedKinds()));
    }
    Fact("restarts", FormatCount(model_.census().restarts));
    Fact("epoch", absl::StrCat(cluster.epoch));
    Fact("input", cluster.input_mode == v1::INPUT_MODE_FEED     ? "rows from feeders (FEED)"
                  : cluster.input_mode == v1::INPUT_MODE_DIRECT ? "nodes read their own (DIRECT)"
                                                                : "");
    Fact("driver", cluster.driver_host.empty()
                       ? ""
                       : absl::StrCat(cluster.driver_host, ", pid ", cluster.driver_pid));
    Fact("version", cluster.version);
    Fact("logs", cluster.log_dir);
    Feeds();
    const LinkHealth& health = model_.health();
    if (health.dropped_events + health.dropped_log_lines + health.dropped_metrics > 0) {
      Fact("missed", absl::StrCat(health.dropped_events, " events, ", health.dropped_log_lines,
                                  " log lines, ", health.dropped_metrics, " metrics"));
    }
    html_ += "</dl>\n</section>\n";
  }

  // Which GPUs there are.
  std::string EscapedKinds() const {
    std::vector<std::string> names;
    for (const GpuState& gpu : model_.gpus()) {
      const bool known = std::find(names.begin(), names.end(), gpu.name) != names.end();
      if (!known && names.size() < 4) names.push_back(gpu.name);
    }
    return absl::StrJoin(names, ", ");
  }

  void Feeds() {
    int shown = 0;
    for (const auto& [id, feed] : model_.feeds()) {
      if (++shown > ReportOptions::kMostFeeds) {
        Fact("feeds", absl::StrCat(model_.feeds().size(), " in all"));
        return;
      }
      const v1::FeedInfo& info = feed.info;
      Fact("feed",
           absl::StrCat(
               id, " on queue ", info.queue(), ": ", FormatCount(info.done()), " of ",
               FormatCount(info.partitions()), " partitions done, ",
               FormatCount(static_cast<int64_t>(info.rows_acked())), " rows used",
               info.rows_refed() == 0
                   ? ""
                   : absl::StrCat(", ", FormatCount(static_cast<int64_t>(info.rows_refed())),
                                  " fed again")));
    }
  }

  void Chapter(absl::string_view name, absl::string_view note = "") {
    absl::StrAppend(&html_, "<section>\n<h2>", name, "</h2>\n");
    if (!note.empty()) absl::StrAppend(&html_, "<p class=\"dim small\">", note, "</p>\n");
  }

  // How many nodes were in which group of states, from what is known of each one's changes.
  std::vector<PlotLine> Counts(const std::vector<StateChange>& changes) const {
    constexpr int kCountPoints = 400;
    std::vector<PlotLine> lines(std::size(kGroups));
    std::vector<int> counts(std::size(kGroups), 0);
    std::vector<int> group_of(model_.nodes().size(), -1);
    const absl::Duration step = (frame_.to - frame_.from) / kCountPoints;
    auto next = changes.begin();
    for (int i = 0; i <= kCountPoints; ++i) {
      const absl::Time at = frame_.from + step * i;
      for (; next != changes.end() && next->time <= at; ++next) {
        int& group = group_of[static_cast<size_t>(next->executor_id)];
        if (group >= 0) --counts[static_cast<size_t>(group)];
        group = static_cast<int>(GroupOf(next->state));
        ++counts[static_cast<size_t>(group)];
      }
      for (size_t g = 0; g < lines.size(); ++g) {
        const auto count = static_cast<float>(counts[g]);
        lines[g].points.push_back({.time = at, .min = count, .max = count, .mean = count});
      }
    }
    std::vector<PlotLine> shown;
    for (size_t g = 0; g < lines.size(); ++g) {
      lines[g].name = kGroups[g].name;
      lines[g].color = kGroups[g].css;
      const auto& points = lines[g].points;
      if (std::any_of(points.begin(), points.end(),
                      [](const HistoryPoint& point) { return point.mean > 0; })) {
        shown.push_back(std::move(lines[g]));
      }
    }
    return shown;
  }

  PlotBar Bar(absl::Time from, absl::Time to, absl::string_view css, absl::string_view what) const {
    return {.from = from,
            .to = to,
            .color = std::string(css),
            .text = absl::StrCat(what, " from ", FormatClock(from, zone_), ", ",
                                 FormatSpan(to - from))};
  }

  void States() {
    Chapter("What happened when",
            absl::StrCat(frame_.from > model_.cluster().started &&
                                 model_.cluster().started != absl::InfinitePast()
                             ? "The last hour. "
                             : "",
                         "Diamonds are failures, triangles restarts, bars nodes that joined."));
    std::vector<PlotLane> lanes(1);
    lanes[0].name = "phase";
    for (const PhaseSpan& span : model_.timeline().phases()) {
      const absl::Time to = std::min(span.to, frame_.to);
      if (to < frame_.from) continue;
      static constexpr const char* kCss[] = {"neutral", "joined",   "good",
                                             "caution", "finished", "bad"};
      const auto phase = static_cast<size_t>(span.phase);
      lanes[0].bars.push_back(Bar(std::max(span.from, frame_.from), to,
                                  phase < std::size(kCss) ? kCss[phase] : "neutral",
                                  PhaseText(span.phase)));
    }
    std::vector<StateChange> changes(model_.timeline().states().begin(),
                                     model_.timeline().states().end());
    std::stable_sort(changes.begin(), changes.end(),
                     [](const StateChange& a, const StateChange& b) { return a.time < b.time; });
    const std::vector<int> nodes = Chosen(model_, ReportOptions::kMostLanes);
    std::map<int, PlotLane*> by_node;
    lanes.resize(1 + nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      lanes[i + 1].name = model_.NodeName(nodes[i]);
      by_node[nodes[i]] = &lanes[i + 1];
    }
    std::map<int, const StateChange*> open;
    const auto close = [&](const StateChange& change, absl::Time to) {
      if (to < frame_.from) return;
      PlotBar bar = Bar(std::max(change.time, frame_.from), to, kGroups[GroupOf(change.state)].css,
                        SlotStateText(change.state));
      if (change.attempt > 0) absl::StrAppend(&bar.text, ", attempt ", change.attempt);
      std::vector<PlotBar>& bars = by_node[change.executor_id]->bars;
      // One that is started again and again: what is newest.
      if (bars.size() >= 400) bars.erase(bars.begin(), bars.begin() + 100);
      bars.push_back(std::move(bar));
    };
    for (const StateChange& change : changes) {
      if (!by_node.contains(change.executor_id)) continue;
      const StateChange*& before = open[change.executor_id];
      if (before != nullptr) close(*before, change.time);
      before = &change;
    }
    for (const auto& [id, change] : open) close(*change, frame_.to);
    html_ += LanePlot(frame_, lanes);
    if (nodes.size() < model_.nodes().size()) {
      absl::StrAppend(&html_, "<p class=\"dim small\">", nodes.size(), " of ",
                      FormatCount(static_cast<int64_t>(model_.nodes().size())),
                      " nodes: those first that failed or were started again.</p>\n");
    }
    if (model_.nodes().size() > 1 && !changes.empty()) {
      html_ += "<h3>nodes by state</h3>\n";
      html_ += StackPlot(frame_, Counts(changes), [](double n) { return FormatSi(n, ""); });
    }
    html_ += "</section>\n";
  }

  void Values() {
    static constexpr struct {
      ClusterMetric metric;
      const char* name;
      const char* css;
      double ceiling;
      std::string (*format)(double);
    } kPlots[] = {
        {ClusterMetric::kRows, "rows received", "s0", 0,
         [](double value) { return FormatSi(value, "rows/s"); }},
        {ClusterMetric::kBytes, "bytes received", "s5", 0, FormatBytesRate},
        {ClusterMetric::kGpuUtilization, "GPUs, mean utilisation", "s2", 100, FormatPercent},
        {ClusterMetric::kStarved, "time in which programs waited for rows", "s7", 1,
         FormatFraction},
        {ClusterMetric::kBackpressured, "time in which feeders had no credit", "s1", 1,
         FormatFraction}};
    bool any = false;
    for (const auto& plot : kPlots) {
      std::vector<PlotLine> line(1);
      line[0].name = plot.name;
      line[0].color = plot.css;
      model_.cluster_history(plot.metric)
          .Query(0, frame_.from, frame_.to, kPoints, &line[0].points);
      if (std::none_of(line[0].points.begin(), line[0].points.end(),
                       [](const HistoryPoint& point) { return Known(point.mean); })) {
        continue;
      }
      if (!std::exchange(any, true)) Chapter("Feed and GPUs");
      absl::StrAppend(&html_, "<h3>", plot.name, "</h3>\n",
                      LinePlot(frame_, line, plot.format, plot.ceiling));
    }
    if (any) html_ += "</section>\n";
  }

  // At most kPoints of its values over the page's time; each is a mean of several then.
  std::vector<HistoryPoint> Points(const MetricSeries& series) const {
    std::vector<HistoryPoint> points(kPoints);
    std::vector<int> counts(kPoints, 0);
    const absl::Duration step = (frame_.to - frame_.from) / kPoints;
    for (const MetricSample& sample : series.samples()) {
      if (!std::isfinite(sample.value)) continue;
      const double place = absl::FDivDuration(sample.time - frame_.from, step);
      if (!(place >= 0 && place <= kPoints)) continue;
      const auto i = std::min(static_cast<size_t>(place), size_t{kPoints - 1});
      HistoryPoint& point = points[i];
      ++counts[i];
      point.mean = counts[i] == 1
                       ? sample.value
                       : point.mean + (sample.value - point.mean) / static_cast<float>(counts[i]);
      point.min = counts[i] == 1 ? sample.value : std::min(point.min, sample.value);
      point.max = counts[i] == 1 ? sample.value : std::max(point.max, sample.value);
      point.time = sample.time;
    }
    std::erase_if(points, [](const HistoryPoint& point) { return !Known(point.mean); });
    return points;
  }

  void Metrics() {
    const std::vector<std::string> names = model_.metrics().names();
    if (names.empty()) return;
    const size_t shown = std::min(names.size(), size_t{ReportOptions::kMostMetrics});
    Chapter(
        "Metrics of the program",
        shown < names.size() ? absl::StrCat("The first ", shown, " of ", names.size(), ".") : "");
    for (size_t n = 0; n < shown; ++n) {
      std::vector<PlotLine> lines;
      const std::vector<const MetricSeries*> all = model_.metrics().SeriesOf(names[n]);
      for (const MetricSeries* series : all) {
        if (lines.size() >= ReportOptions::kMostLines) break;
        std::vector<HistoryPoint> points = Points(*series);
        if (points.empty()) continue;
        lines.push_back({.name = absl::StrCat(model_.NodeName(series->executor_id()), " ",
                                              FormatNumber(series->samples().back().value)),
                         .color = absl::StrCat("s", lines.size()),
                         .points = std::move(points)});
      }
      absl::StrAppend(&html_, "<h3>", EscapeHtml(names[n], kNameBytes));
      if (all.size() > lines.size()) {
        absl::StrAppend(&html_, ", ", lines.size(), " of ", all.size(), " nodes");
      } else if (lines.size() == 1) {
        absl::StrAppend(&html_, ", ", EscapeHtml(lines.front().name, kNameBytes));
      }
      html_ += "</h3>\n";
      html_ += LinePlot(frame_, lines, FormatNumber);
    }
    html_ += "</section>\n";
  }

  void Events() {
    const auto& all = model_.timeline().events();
    if (all.empty()) return;
    // The first cause, then warnings and errors, then the others; of each, the newest.
    const auto rank = [](const TimelineEvent& event) {
      return event.first_cause ? 0 : event.severity >= v1::Event::SEVERITY_WARNING ? 1 : 2;
    };
    std::vector<const TimelineEvent*> events;
    for (auto event = all.rbegin(); event != all.rend(); ++event) events.push_back(&*event);
    std::stable_sort(
        events.begin(), events.end(),
        [&](const TimelineEvent* a, const TimelineEvent* b) { return rank(*a) < rank(*b); });
    if (events.size() > ReportOptions::kMostEvents) events.resize(ReportOptions::kMostEvents);
    std::sort(events.begin(), events.end(),
              [](const TimelineEvent* a, const TimelineEvent* b) { return a->number < b->number; });
    Chapter("Events, restarts and failures",
            events.size() < all.size()
                ? absl::StrCat(events.size(), " of ", FormatCount(static_cast<int64_t>(all.size())),
                               ": warnings and errors first, then the newest.")
                : "");
    html_ +=
        "<div class=\"wide\"><table>\n<thead><tr><th>time</th><th>kind</th><th>node</th>"
        "<th>what</th></tr></thead>\n<tbody>\n";
    for (const TimelineEvent* event : events) {
      const char* const css = event->severity == v1::Event::SEVERITY_ERROR     ? "bad"
                              : event->severity == v1::Event::SEVERITY_WARNING ? "caution"
                                                                               : "neutral";
      absl::StrAppend(
          &html_, "<tr class=\"",
          event->first_cause ? "first "
          : event->folded    ? "folded "
                             : "",
          css, "\"><td>", FormatClock(event->time, zone_), "</td><td class=\"state\">",
          EscapeHtml(event->kind, kNameBytes), "</td><td>",
          event->executor_id < 0 ? "" : EscapeHtml(model_.NodeName(event->executor_id), kNameBytes),
          "</td><td class=\"t\">", event->first_cause ? "First cause: " : "",
          EscapeHtml(event->text), "</td></tr>\n");
    }
    html_ += "</tbody>\n</table></div>\n</section>\n";
  }

  // The last lines of those that failed first.
  void Logs() {
    std::vector<int> nodes;
    for (const TimelineEvent& event : model_.timeline().events()) {
      if (event.kind != "failure" || event.executor_id < 0) continue;
      if (std::find(nodes.begin(), nodes.end(), event.executor_id) != nodes.end()) continue;
      nodes.push_back(event.executor_id);
      if (event.first_cause) std::rotate(nodes.begin(), nodes.end() - 1, nodes.end());
    }
    if (nodes.size() > ReportOptions::kMostLogs) nodes.resize(ReportOptions::kMostLogs);
    const LogRing& logs = model_.logs();
    std::vector<std::vector<LogLine>> lines(nodes.size());
    size_t wanted = nodes.size() * ReportOptions::kMostLogLines;
    for (uint64_t number = logs.end(); number > logs.first() && wanted > 0;) {
      const LogLine line = logs.line(--number);
      const auto found = std::find(nodes.begin(), nodes.end(), line.executor_id);
      if (found == nodes.end()) continue;
      std::vector<LogLine>& of = lines[static_cast<size_t>(found - nodes.begin())];
      if (of.size() >= ReportOptions::kMostLogLines) continue;
      of.push_back(line);
      --wanted;
    }
    if (std::all_of(lines.begin(), lines.end(), [](const auto& each) { return each.empty(); })) {
      return;
    }
    Chapter("What they wrote last");
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (lines[i].empty()) continue;
      absl::StrAppend(&html_, "<h3>", EscapeHtml(model_.NodeName(nodes[i]), kNameBytes),
                      "</h3>\n<pre>");
      for (auto line = lines[i].rbegin(); line != lines[i].rend(); ++line) {
        absl::StrAppend(&html_, FormatClock(line->time, zone_), " ", LogLevelLetter(line->level),
                        " ", EscapeHtml(line->text), "\n");
      }
      html_ += "</pre>\n";
    }
    html_ += "</section>\n";
  }

  // A number and how it is sorted.
  void Cell(double value, absl::string_view text) {
    absl::StrAppend(&html_, "<td class=\"n\"",
                    std::isfinite(value) ? absl::StrCat(" data-v=\"", value, "\"") : "", ">",
                    std::isfinite(value) ? text : "–", "</td>");
  }

  void Nodes() {
    if (model_.nodes().empty()) return;
    const std::vector<int> nodes = Chosen(model_, ReportOptions::kMostNodes);
    Chapter(
        "Nodes",
        absl::StrCat(nodes.size() < model_.nodes().size()
                         ? absl::StrCat(FormatCount(static_cast<int64_t>(nodes.size())), " of ",
                                        FormatCount(static_cast<int64_t>(model_.nodes().size())),
                                        ": those first that failed or were started again. ")
                         : "",
                     "CPU, rows and waiting are means over the time above, memory is the "
                     "most."));
    html_ +=
        "<div class=\"wide\"><table class=\"sorts\">\n<thead><tr><th>node</th><th>host</th>"
        "<th>state</th><th class=\"n\">since</th><th class=\"n\">attempt</th>"
        "<th class=\"n\">CPU</th><th class=\"n\">memory</th><th class=\"n\">GPU</th>"
        "<th class=\"n\">rows/s</th><th class=\"n\">waited</th><th>newest metric</th>"
        "<th>error</th></tr></thead>\n<tbody>\n";
    std::vector<HistoryPoint> points;
    for (const int id : nodes) {
      const NodeState& node = model_.nodes()[static_cast<size_t>(id)];
      const auto over = [&](NodeMetric metric) {
        model_.node_history(metric).Query(static_cast<size_t>(id), frame_.from, frame_.to, 1,
                                          &points);
        return points.empty() ? HistoryPoint() : points.front();
      };
      const float cpu = over(NodeMetric::kCpu).mean;
      const float memory = over(NodeMetric::kRss).max;
      const float gpu = MeanGpuUtilization(model_, node);
      const float rows = over(NodeMetric::kRows).mean;
      const float starved = over(NodeMetric::kStarved).mean;
      absl::StrAppend(&html_, "<tr class=\"", kGroups[GroupOf(node.state)].css, "\"><td data-v=\"",
                      id, "\">", EscapeHtml(node.name, kNameBytes), "</td><td>",
                      EscapeHtml(node.host, kNameBytes), "</td><td class=\"state\">",
                      node.stopped ? "stopped" : SlotStateText(node.state), "</td>");
      Cell(node.since() == absl::InfinitePast()
               ? kUnknown
               : absl::ToDoubleSeconds(node.since() - absl::UnixEpoch()),
           FormatClock(node.since(), zone_));
      Cell(node.attempt, absl::StrCat(node.attempt));
      Cell(cpu, FormatPercent(cpu));
      Cell(memory, FormatBytes(memory));
      Cell(gpu, FormatPercent(gpu));
      Cell(rows, FormatSi(rows, ""));
      Cell(starved, FormatFraction(starved));
      absl::StrAppend(&html_, "<td>",
                      node.last_metric.empty()
                          ? ""
                          : EscapeHtml(absl::StrCat(Ellipsize(node.last_metric, 40), " ",
                                                    FormatNumber(node.last_metric_value))),
                      "</td><td class=\"t\">", EscapeHtml(node.error, kErrorBytes), "</td></tr>\n");
    }
    html_ += "</tbody>\n</table></div>\n</section>\n";
  }

  const DashboardModel& model_;
  const ReportOptions& options_;
  const absl::TimeZone zone_;
  PlotFrame frame_;
  std::string html_;
};

}  // namespace

std::string HtmlReport(const DashboardModel& model, const ReportOptions& options) {
  return Report(model, options).Make();
}

}  // namespace millrace::dashboard
