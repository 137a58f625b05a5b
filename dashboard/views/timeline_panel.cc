#include "dashboard/views/timeline_panel.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "core/client/cluster_view.h"
#include "dashboard/model/format.h"
#include "dashboard/model/table_rows.h"
#include "dashboard/views/history_plot.h"
#include "dashboard/views/widgets.h"
#include "imgui.h"

namespace millrace::dashboard {
namespace {

constexpr float kLabelPx = 76;
constexpr float kListPx = 430;
constexpr absl::Duration kBeforeEvent = absl::Seconds(5);

ImU32 SeverityColor(const Theme& theme, const TimelineEvent& event) {
  if (event.first_cause || event.severity == v1::Event::SEVERITY_ERROR) return theme.bad;
  return event.severity == v1::Event::SEVERITY_WARNING ? theme.caution : theme.dim;
}

float PlaceOf(absl::Time time, const TimeRange& range, float left, float right) {
  const double span = std::max(1e-3, absl::ToDoubleSeconds(range.to - range.from));
  const double at = absl::ToDoubleSeconds(time - range.from) / span;
  return left + static_cast<float>(std::clamp(at, -1.0, 2.0)) * (right - left);
}

absl::Time TimeAt(float x, const TimeRange& range, float left, float right) {
  const double at = std::clamp((x - left) / std::max(1.0F, right - left), 0.0F, 1.0F);
  return range.from + (range.to - range.from) * at;
}

// Circle: it went well; triangle: a warning; diamond: an error.
void EventShape(ImDrawList* list, ImVec2 at, float radius, const Theme& theme,
                const TimelineEvent& event) {
  const ImU32 color = SeverityColor(theme, event);
  if (event.first_cause || event.severity == v1::Event::SEVERITY_ERROR) {
    list->AddNgonFilled(at, radius * 1.35F, color, 4);
  } else if (event.severity == v1::Event::SEVERITY_WARNING) {
    list->AddTriangleFilled(ImVec2(at.x, at.y - radius),
                            ImVec2(at.x + radius, at.y + radius * 0.8F),
                            ImVec2(at.x - radius, at.y + radius * 0.8F), color);
  } else {
    list->AddCircleFilled(at, radius * 0.7F, color);
  }
}

// For one line: who and what. Executor, host and pid are in the tooltip.
std::string Short(absl::string_view text) {
  std::string line = FirstLine(text);
  const size_t open = line.find(" (executor ");
  if (open == std::string::npos) return line;
  const size_t close = line.find(") ", open);
  if (close != std::string::npos) line.erase(open, close + 1 - open);
  return line;
}

void Label(const Theme& theme, ImVec2 at, absl::string_view text, ImU32 color) {
  // A size between two pixels would be blurred.
  ImGui::GetWindowDrawList()->AddText(
      theme.fonts.text, std::round(kSmallSize * ImGui::GetStyle().FontScaleDpi),
      ImVec2(std::floor(at.x), std::floor(at.y)), color, text.data(), text.data() + text.size());
}

}  // namespace

void TimelinePanel::PhaseLane(const ViewContext& context, ImVec2 min, ImVec2 max) {
  const Theme& theme = context.theme;
  const TimeRange range = Range(context);
  ImDrawList* list = ImGui::GetWindowDrawList();
  for (const PhaseSpan& span : context.model.timeline().phases()) {
    const absl::Time to = std::min(span.to, context.model.now());
    if (to < range.from || span.from > range.to) continue;
    const float x0 = std::max(min.x, PlaceOf(span.from, range, min.x, max.x));
    const float x1 = std::min(max.x, PlaceOf(to, range, min.x, max.x));
    const ImU32 color = PhaseColor(theme, span.phase);
    list->AddRectFilled(ImVec2(x0, min.y + 2), ImVec2(std::max(x1, x0 + 2), max.y - 2),
                        Fade(color, 0.28F), 2);
    list->AddRectFilled(ImVec2(x0, min.y + 2), ImVec2(x0 + 2, max.y - 2), color);
    const absl::string_view name = PhaseText(span.phase);
    const float width = ImGui::CalcTextSize(name.data(), name.data() + name.size()).x;
    if (x1 - x0 > width + 10) {
      Label(theme, ImVec2(x0 + 6, min.y + (max.y - min.y - kSmallSize * context.scale) / 2 - 1),
            name, theme.text);
    }
  }
  float last_label = -1e9F;
  for (const EpochMark& mark : context.model.timeline().epochs()) {
    const float x = PlaceOf(mark.time, range, min.x, max.x);
    if (x < min.x || x > max.x) continue;
    list->AddLine(ImVec2(x, min.y), ImVec2(x, max.y), theme.accent, 1);
    const bool crowded =
        std::any_of(context.model.timeline().phases().begin(),
                    context.model.timeline().phases().end(), [&](const PhaseSpan& span) {
                      const float begins = PlaceOf(span.from, range, min.x, max.x);
                      return x > begins - 30 * context.scale && x < begins + 64 * context.scale;
                    });
    if (crowded || x - last_label < 34 * context.scale || x + 30 * context.scale > max.x) continue;
    last_label = x;
    Label(theme, ImVec2(x + 3, min.y + 1), absl::StrCat("e", mark.epoch), theme.accent);
  }
}

const TimelineEvent* TimelinePanel::EventLane(const ViewContext& context, ImVec2 min, ImVec2 max) {
  const Theme& theme = context.theme;
  const TimeRange range = Range(context);
  ImDrawList* list = ImGui::GetWindowDrawList();
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const bool over =
      mouse.x >= min.x - 4 && mouse.x <= max.x + 4 && mouse.y >= min.y && mouse.y <= max.y;
  const float radius = 4.5F * context.scale;
  const TimelineEvent* hit = nullptr;
  float nearest = 8 * context.scale;
  // One mark for what falls upon one place: the worst, which is drawn last.
  for (const v1::Event::Severity severity :
       {v1::Event::SEVERITY_INFO, v1::Event::SEVERITY_WARNING, v1::Event::SEVERITY_ERROR}) {
    float drawn = -1e9F;
    for (const TimelineEvent& event : context.model.timeline().events()) {
      if (std::max(event.severity, v1::Event::SEVERITY_INFO) != severity) continue;
      if (event.time < range.from || event.time > range.to) continue;
      const float x = PlaceOf(event.time, range, min.x, max.x);
      const bool selected = context.selection.event == static_cast<int64_t>(event.number);
      if (over && std::fabs(mouse.x - x) <= nearest) {
        nearest = std::fabs(mouse.x - x);
        hit = &event;
      }
      const bool of_selected =
          event.executor_id >= 0 && event.executor_id == context.selection.node;
      if (x - drawn < 2 && !selected && !of_selected && !event.first_cause) continue;
      drawn = x;
      const ImVec2 at(x, (min.y + max.y) / 2);
      EventShape(list, at, radius, theme, event);
      if (selected) list->AddCircle(at, radius * 1.9F, theme.accent, 0, 1.5F);
      // Those of the selected node stand on a line.
      if (of_selected) {
        list->AddLine(ImVec2(x - radius, max.y - 2), ImVec2(x + radius, max.y - 2), theme.accent,
                      1.5F * context.scale);
      }
    }
  }
  return hit;
}

void TimelinePanel::Strip(const ViewContext& context, ClusterMetric metric, ImVec2 min, ImVec2 max,
                          float ceiling, ImU32 color) {
  const TimeRange range = Range(context);
  context.model.cluster_history(metric).Query(0, range.from, range.to, PointsFor(max.x - min.x),
                                              &points_);
  if (ceiling == 0 && context.shared != nullptr) {
    float top = 0;
    for (const HistoryPoint& point : points_) {
      if (Known(point.max)) top = std::max(top, point.max);
    }
    ceiling = static_cast<float>(
        SharedMost(context, absl::StrCat("strip", static_cast<int>(metric)), top));
  }
  ImGui::SetCursorScreenPos(ImVec2(min.x, min.y + 2));
  Sparkline(context.theme, ImVec2(max.x - min.x, max.y - min.y - 4), points_, range.from, range.to,
            ceiling, color);
}

void TimelinePanel::Axis(const ViewContext& context, ImVec2 min, ImVec2 max) {
  const TimeRange range = Range(context);
  const double from = absl::ToUnixMicros(range.from) / 1e6;
  const double to = absl::ToUnixMicros(range.to) / 1e6;
  const double step = absl::ToDoubleSeconds(
      TickStep(range.to - range.from, std::max(0.0F, max.x - min.x) / (84 * context.scale)));
  ImDrawList* list = ImGui::GetWindowDrawList();
  int count = 0;
  for (double at = FirstTick(context, from, step); at <= to && count < 64; at += step, ++count) {
    const absl::Time time = absl::FromUnixMicros(static_cast<int64_t>(at * 1e6));
    const float x = PlaceOf(time, range, min.x, max.x);
    list->AddLine(ImVec2(x, min.y), ImVec2(x, max.y - kSmallSize * context.scale - 2),
                  Fade(context.theme.line, 0.7F));
    const std::string text = TickLabel(context, time, step);
    const float width = ImGui::CalcTextSize(text.c_str()).x * kSmallSize / kTextSize;
    if (x + width / 2 > max.x || x - width / 2 < min.x) continue;
    Label(context.theme, ImVec2(x - width / 2, max.y - kSmallSize * context.scale - 1), text,
          context.theme.dim);
  }
}

void TimelinePanel::Interact(const ViewContext& context, ImVec2 min, ImVec2 max,
                             const TimelineEvent* hit, Commands* commands) {
  const Theme& theme = context.theme;
  const DashboardModel& model = context.model;
  const TimeRange range = Range(context);
  ImGui::SetCursorScreenPos(min);
  ImGui::InvisibleButton("lanes",
                         ImVec2(std::max(1.0F, max.x - min.x), std::max(1.0F, max.y - min.y)));
  const ImGuiIO& io = ImGui::GetIO();
  ImDrawList* list = ImGui::GetWindowDrawList();
  const bool hovered = ImGui::IsItemHovered();
  if (ImGui::IsItemActive() && io.MouseDragMaxDistanceSqr[0] > 36) dragging_ = true;
  const float x0 = std::clamp(std::min(io.MouseClickedPos[0].x, io.MousePos.x), min.x, max.x);
  const float x1 = std::clamp(std::max(io.MouseClickedPos[0].x, io.MousePos.x), min.x, max.x);
  if (dragging_ && ImGui::IsItemActive()) {
    list->AddRectFilled(ImVec2(x0, min.y), ImVec2(x1, max.y), Fade(theme.accent, 0.18F));
  }
  if (ImGui::IsItemDeactivated()) {
    const absl::Time from = TimeAt(x0, range, min.x, max.x);
    const absl::Time to = TimeAt(x1, range, min.x, max.x);
    if (dragging_ && to - from >= absl::Seconds(1)) {
      commands->SetBrush({.live = false, .span = context.brush.span, .from = from, .to = to});
    } else if (!dragging_ && hit != nullptr) {
      Selection selection = context.selection;
      selection.event = static_cast<int64_t>(hit->number);
      if (hit->executor_id >= 0) selection.node = hit->executor_id;
      commands->Select(selection);
    }
    dragging_ = false;
  }
  if (!hovered) return;
  if (ImGui::IsMouseDoubleClicked(0) && hit == nullptr) {
    commands->SetBrush({.live = true, .span = context.brush.span});
  }
  if (io.MouseWheel != 0 && io.KeyCtrl) {
    const double factor = io.MouseWheel > 0 ? 0.8 : 1.25;
    TimeBrush brush = context.brush;
    if (brush.live) {
      brush.span = std::clamp(brush.span * factor, absl::Seconds(10), absl::Hours(1));
    } else {
      const absl::Time at = TimeAt(io.MousePos.x, range, min.x, max.x);
      brush.from = at - (at - range.from) * factor;
      brush.to = at + (range.to - at) * factor;
    }
    commands->SetBrush(brush);
  }
  list->AddLine(ImVec2(io.MousePos.x, min.y), ImVec2(io.MousePos.x, max.y), Fade(theme.dim, 0.6F));
  if (!ImGui::BeginTooltip()) return;
  ImGui::PushTextWrapPos(ImGui::GetFontSize() * 32);
  const absl::Time at = hit != nullptr ? hit->time : TimeAt(io.MousePos.x, range, min.x, max.x);
  Mono(theme, absl::StrCat(FormatClock(at, model.options().zone), "  ", FormatAge(at, model.now())),
       theme.dim);
  if (hit != nullptr) {
    Text(theme, Ellipsize(hit->text, 600),
         SeverityColor(theme, *hit) == theme.dim ? theme.text : SeverityColor(theme, *hit));
  }
  const auto value = [&](ClusterMetric metric) {
    return model.cluster_history(metric).ValueAt(0, at);
  };
  Mono(theme,
       absl::StrCat(FormatSi(value(ClusterMetric::kRows), "rows/s"), "  ",
                    FormatBytesRate(value(ClusterMetric::kBytes)), "  GPUs ",
                    FormatPercent(value(ClusterMetric::kGpuUtilization)), "  running ",
                    FormatNumber(value(ClusterMetric::kRunning))),
       theme.text);
  ImGui::PopTextWrapPos();
  ImGui::EndTooltip();
}

void TimelinePanel::Lanes(const ViewContext& context, ImVec2 size, Commands* commands) {
  if (!ImGui::BeginChild("time", size)) {
    ImGui::EndChild();
    return;
  }
  const Theme& theme = context.theme;
  const float px = context.scale;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const float left = at.x + kLabelPx * px;
  const float right = at.x + room.x - 4 * px;
  const float axis = 18 * px;
  const float phase = 22 * px;
  const float events = 22 * px;
  const float strip = std::max(14 * px, (room.y - axis - phase - events) / 3);
  const float bottom = at.y + std::min(room.y, phase + events + 3 * strip + axis);
  Axis(context, ImVec2(left, at.y), ImVec2(right, bottom));
  float y = at.y;
  const auto lane = [&](float height, absl::string_view name, absl::string_view value) {
    Label(theme, ImVec2(at.x + 2, y + 2), name, theme.dim);
    if (!value.empty() && height > 2.3F * kSmallSize * px) {
      Label(theme, ImVec2(at.x + 2, y + 2 + kSmallSize * px + 2), value, theme.text);
    }
    y += height;
    return std::pair<ImVec2, ImVec2>(ImVec2(left, y - height), ImVec2(right, y));
  };
  const DashboardModel& model = context.model;
  const auto phases = lane(phase, "phase", "");
  PhaseLane(context, phases.first, phases.second);
  const auto marks = lane(events, "events", "");
  const TimelineEvent* hit = EventLane(context, marks.first, marks.second);
  const auto rows = lane(strip, "rows", FormatSi(model.cluster_value(ClusterMetric::kRows), "/s"));
  Strip(context, ClusterMetric::kRows, rows.first, rows.second, 0, theme.accent);
  const auto gpus =
      lane(strip, "GPUs", FormatPercent(model.cluster_value(ClusterMetric::kGpuUtilization)));
  Strip(context, ClusterMetric::kGpuUtilization, gpus.first, gpus.second, 100, theme.good);
  const auto waits =
      lane(strip, "starved", FormatFraction(model.cluster_value(ClusterMetric::kStarved)));
  Strip(context, ClusterMetric::kStarved, waits.first, waits.second, 1, theme.starved);
  const TimeRange range = Range(context);
  const absl::Duration gap = (range.to - range.from) * (4 * px / std::max(1.0F, right - left));
  for (const TimelineMark& mark : model.timeline().Marks(range.from, range.to, gap)) {
    MarkLine(context, ImGui::GetWindowDrawList(), mark, PlaceOf(mark.time, range, left, right),
             mark.event->first_cause ? at.y : rows.first.y, bottom - axis);
  }
  Interact(context, ImVec2(left, at.y), ImVec2(right, bottom), hit, commands);
  ImGui::EndChild();
}

void TimelinePanel::Refresh(const ViewContext& context) {
  const Timeline& timeline = context.model.timeline();
  if (!dirty_ && version_ == timeline.version() && cluster_ == context.cluster) return;
  dirty_ = false;
  cluster_ = context.cluster;
  version_ = timeline.version();
  rows_.clear();
  const TimelineEvent* cause = timeline.first_cause();
  const auto& events = timeline.events();
  const auto shown = [&](const TimelineEvent& event) {
    if (severity_ == 1 && event.severity < v1::Event::SEVERITY_WARNING) return false;
    if (severity_ == 2 && event.severity < v1::Event::SEVERITY_ERROR) return false;
    return Matches(event.text, filter_) || Matches(event.kind, filter_);
  };
  if (cause != nullptr) {
    rows_.push_back(cause->number);
    if (unfolded_) {
      for (const TimelineEvent& event : events) {
        if (event.folded) rows_.push_back(event.number);
      }
    }
  }
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (event->first_cause || event->folded || !shown(*event)) continue;
    rows_.push_back(event->number);
  }
}

std::string TimelinePanel::Csv(const DashboardModel& model) const {
  CsvTable csv({"number", "time", "kind", "severity", "executor_id", "node", "attempt",
                "first_cause", "folded", "text"});
  for (const TimelineEvent& event : model.timeline().events()) {
    csv.Cell(static_cast<int64_t>(event.number));
    csv.Cell(FormatDateTime(event.time, model.options().zone));
    csv.Cell(event.kind);
    csv.Cell(event.severity == v1::Event::SEVERITY_ERROR     ? "error"
             : event.severity == v1::Event::SEVERITY_WARNING ? "warning"
                                                             : "info");
    csv.Cell(int64_t{event.executor_id});
    csv.Cell(event.executor_id < 0 ? "" : model.NodeName(event.executor_id));
    csv.Cell(int64_t{event.attempt});
    csv.Cell(event.first_cause ? "yes" : "no");
    csv.Cell(event.folded ? "yes" : "no");
    csv.Cell(event.text);
    csv.EndRow();
  }
  return csv.Take();
}

void TimelinePanel::Row(const ViewContext& context, const TimelineEvent& event,
                        Commands* commands) {
  const Theme& theme = context.theme;
  const DashboardModel& model = context.model;
  const float px = context.scale;
  ImGui::TableNextRow(0, 22 * px);
  if (event.first_cause) {
    ImGui::TableSetBgColor(ImGuiTableBgTarget_RowBg1, Fade(theme.bad, 0.16F));
  } else if (event.executor_id >= 0 && event.executor_id == context.selection.node) {
    ImGui::TableSetBgColor(ImGuiTableBgTarget_RowBg1, Fade(theme.accent, 0.07F));
  }
  ImGui::TableNextColumn();
  ImGui::PushID(static_cast<int>(event.number));
  const bool selected = context.selection.event == static_cast<int64_t>(event.number);
  if (ImGui::Selectable(
          "##event", selected,
          ImGuiSelectableFlags_SpanAllColumns | ImGuiSelectableFlags_AllowDoubleClick)) {
    Selection selection = context.selection;
    selection.event = static_cast<int64_t>(event.number);
    if (event.executor_id >= 0) selection.node = event.executor_id;
    if (ImGui::IsMouseDoubleClicked(0)) {
      Jump jump;
      jump.panel = Panel::kLogs;
      jump.selection = selection;
      jump.at = event.time - kBeforeEvent;
      commands->Go(jump);
    } else {
      commands->Select(selection);
    }
  }
  if (BeginTip()) {
    Mono(theme,
         absl::StrCat(FormatDateTime(event.time, model.options().zone), "  ", event.kind, "  #",
                      event.number),
         theme.dim);
    ImGui::TextUnformatted(event.text.c_str());
    SmallText(theme, "Double click: the logs around it", theme.dim);
    EndTip();
  }
  ImGui::PopID();
  ImGui::SameLine(0, 0);
  Mono(theme, FormatClock(event.time, model.options().zone), theme.dim);
  ImGui::TableNextColumn();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float height = ImGui::GetTextLineHeight();
  EventShape(ImGui::GetWindowDrawList(), ImVec2(at.x + 7 * px, at.y + height * 0.54F), 4.5F * px,
             theme, event);
  ImGui::TableNextColumn();
  if (event.folded) ImGui::Indent(10 * px);
  ShortenedText(Short(event.text), event.folded ? theme.dim : theme.text, /*tip=*/false);
  if (event.folded) ImGui::Unindent(10 * px);
}

void TimelinePanel::List(const ViewContext& context, Commands* commands) {
  const Theme& theme = context.theme;
  const Timeline& timeline = context.model.timeline();
  static constexpr const char* kSeverities[] = {"all", "warnings", "errors"};
  if (Choice(theme, "severity", kSeverities, &severity_)) dirty_ = true;
  ImGui::SameLine();
  if (FilterField(theme, "##events", "filter", false, 110, context.scale, &filter_)) dirty_ = true;
  ImGui::SameLine(0, 2);
  if (IconButton(theme, icon::kDownload, "Export all events as CSV"))
    commands->Export("events", Csv(context.model));
  if (timeline.first_cause() != nullptr && timeline.folded() > 0) {
    ImGui::SameLine(0, 2);
    const std::string text =
        absl::StrCat(unfolded_ ? "hide " : "show ", timeline.folded(), " folded");
    if (ImGui::SmallButton(text.c_str())) {
      unfolded_ = !unfolded_;
      dirty_ = true;
    }
  }
  Refresh(context);
  constexpr ImGuiTableFlags kFlags =
      ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_ScrollY | ImGuiTableFlags_NoBordersInBody;
  if (!ImGui::BeginTable("events", 3, kFlags, ImGui::GetContentRegionAvail())) return;
  ImGui::TableSetupColumn("time", ImGuiTableColumnFlags_WidthFixed, 88 * context.scale);
  ImGui::TableSetupColumn("severity", ImGuiTableColumnFlags_WidthFixed, 16 * context.scale);
  ImGui::TableSetupColumn("text", ImGuiTableColumnFlags_WidthStretch);
  ImGuiListClipper clipper;
  clipper.Begin(static_cast<int>(rows_.size()), 22 * context.scale);
  while (clipper.Step()) {
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
      const TimelineEvent* event = timeline.Find(rows_[static_cast<size_t>(i)]);
      if (event != nullptr) Row(context, *event, commands);
    }
  }
  ImGui::EndTable();
}

void TimelinePanel::Draw(const ViewContext& context, Commands* commands) {
  if (!context.model.has_data()) {
    EmptyState(context.theme, icon::kClock, "Nothing has happened yet",
               "Phases, epochs, restarts and failures appear here as the cluster tells them.");
    return;
  }
  const ImVec2 room = ImGui::GetContentRegionAvail();
  // Beside each other where it is wide and low, as at the bottom of the window.
  const bool wide = room.y < 420 * context.scale && room.x > 760 * context.scale;
  const float list = std::min(kListPx * context.scale, room.x * 0.42F);
  const ImVec2 lanes = wide ? ImVec2(room.x - list - 8 * context.scale, room.y)
                            : ImVec2(room.x, std::min(room.y * 0.5F, 260 * context.scale));
  Lanes(context, lanes, commands);
  if (wide) ImGui::SameLine(0, 8 * context.scale);
  if (ImGui::BeginChild("list", ImGui::GetContentRegionAvail())) List(context, commands);
  ImGui::EndChild();
}

void TimelinePanel::TakeChoices(const PanelView& other) {
  const auto& from = static_cast<const TimelinePanel&>(other);
  dirty_ = dirty_ || severity_ != from.severity_ || filter_ != from.filter_;
  severity_ = from.severity_;
  filter_ = from.filter_;
}

}  // namespace millrace::dashboard
