#include "dashboard/views/logs_panel.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "dashboard/model/format.h"
#include "dashboard/views/widgets.h"
#include "imgui.h"

namespace millrace::dashboard {
namespace {

constexpr size_t kLinesPerFrame = 40'000;  // that are searched
constexpr size_t kExportedLines = 100'000;
constexpr size_t kCopiedLines = 2'000;
constexpr absl::Duration kBeforeEvent = absl::Seconds(5);

ImU32 LevelColor(const Theme& theme, LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return theme.bad;
    case LogLevel::kWarning:
      return theme.caution;
    case LogLevel::kDebug:
      return theme.unknown;
    default:
      return theme.dim;
  }
}

absl::string_view SourceName(LogSource source) {
  switch (source) {
    case LogSource::kStdout:
      return "stdout";
    case LogSource::kStderr:
      return "stderr";
    case LogSource::kAgent:
      return "agent";
  }
  return "";
}

}  // namespace

std::string LogsPanel::Csv(const DashboardModel& model) const {
  CsvTable csv({"time", "executor_id", "node", "attempt", "source", "level", "text"});
  const auto& matches = filter_.matches();
  const size_t first = matches.size() - std::min(matches.size(), kExportedLines);
  for (size_t i = first; i < matches.size(); ++i) {
    const LogLine line = model.logs().line(matches[i]);
    csv.Cell(FormatDateTime(line.time, model.options().zone));
    csv.Cell(int64_t{line.executor_id});
    csv.Cell(model.NodeName(line.executor_id));
    csv.Cell(int64_t{line.attempt});
    csv.Cell(SourceName(line.source));
    csv.Cell(LogLevelLetter(line.level));
    csv.Cell(line.text);
    csv.EndRow();
  }
  return csv.Take();
}

void LogsPanel::Toolbar(const ViewContext& context, Commands* commands) {
  const Theme& theme = context.theme;
  const DashboardModel& model = context.model;
  const float room = ImGui::GetContentRegionAvail().x / context.scale;
  const bool other_text = FilterField(theme, "##search", "search   /", context.focus_filter,
                                      std::clamp(room - 590, 78.0F, 240.0F), context.scale, &text_);
  ImGui::SameLine();
  static constexpr const char* kLevels[] = {"all", "info", "warnings", "errors"};
  // Among other lines, the place where the user was reading is elsewhere.
  if (Choice(theme, "levels", kLevels, &level_) || other_text) follow_ = true;
  ImGui::SameLine();
  const bool selected = context.selection.node >= 0;
  static constexpr const char* kWho[] = {"all nodes", "selected"};
  int who = only_selected_ ? 1 : 0;
  ImGui::BeginDisabled(!selected);
  if (Choice(theme, "who", kWho, &who)) only_selected_ = who == 1;
  ImGui::EndDisabled();
  if (selected) {
    Tip(model.NodeName(context.selection.node));
  }
  ImGui::SameLine();
  static constexpr const char* kFollow[] = {"stay", "follow"};
  int follow = follow_ ? 1 : 0;
  if (Choice(theme, "follow", kFollow, &follow)) follow_ = follow == 1;
  ImGui::SameLine();
  if (IconButton(theme, icon::kCopy, "Copy the last lines")) {
    std::string text;
    const auto& matches = filter_.matches();
    for (size_t i = matches.size() - std::min(matches.size(), kCopiedLines); i < matches.size();
         ++i) {
      const LogLine line = model.logs().line(matches[i]);
      absl::StrAppend(&text, FormatDateTime(line.time, model.options().zone), " ",
                      model.NodeName(line.executor_id), " ", line.text, "\n");
    }
    commands->Copy(text);
  }
  ImGui::SameLine(0, 2);
  if (IconButton(theme, icon::kDownload, "Export these lines as CSV"))
    commands->Export("logs", Csv(model));
  ImGui::SameLine();
  std::string count = absl::StrCat(FormatCount(static_cast<int64_t>(filter_.matches().size())),
                                   " of ", FormatCount(static_cast<int64_t>(model.logs().size())));
  if (!complete_) count += ", searching";
  if (model.logs().dropped() > 0) {
    absl::StrAppend(&count, ", ", FormatCount(static_cast<int64_t>(model.logs().dropped())),
                    " lost");
  }
  if (ImGui::GetContentRegionAvail().x > ImGui::CalcTextSize(count.c_str()).x) {
    SmallText(theme, count, theme.dim);
  } else {
    ImGui::NewLine();
  }
}

void LogsPanel::Row(const ViewContext& context, uint64_t number, Commands* commands) {
  const Theme& theme = context.theme;
  const DashboardModel& model = context.model;
  const float px = context.scale;
  const LogLine line = model.logs().line(number);
  const bool of_selected = context.selection.node == line.executor_id;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float height = 18 * px;
  ImDrawList* list = ImGui::GetWindowDrawList();
  const float right = at.x + std::max(ImGui::GetContentRegionAvail().x, 1.0F);
  if (of_selected && !only_selected_) {
    list->AddRectFilled(at, ImVec2(right, at.y + height), Fade(theme.accent, 0.07F));
  }
  ImGui::PushID(static_cast<int>(number));
  if (ImGui::InvisibleButton("##line", ImVec2(right - at.x, height))) {
    Selection selection = context.selection;
    selection.node = line.executor_id;
    commands->Select(selection);
  }
  const std::string name = model.NodeName(line.executor_id);
  if (ImGui::IsItemHovered()) {
    list->AddRectFilled(at, ImVec2(right, at.y + height), Fade(theme.text, 0.05F));
    if (ImGui::IsMouseReleased(ImGuiMouseButton_Right)) commands->Copy(std::string(line.text));
  }
  if (BeginTip()) {
    Mono(theme,
         absl::StrCat(FormatDateTime(line.time, model.options().zone), "  ", name, " attempt ",
                      line.attempt, "  ", SourceName(line.source)),
         theme.dim);
    ImGui::TextUnformatted(line.text.data(), line.text.data() + line.text.size());
    SmallText(theme, "Right click copies the line", theme.dim);
    EndTip();
  }
  ImGui::PopID();
  ImGui::PushFont(theme.fonts.mono, kMonoSize);
  const float y = at.y + (height - ImGui::GetTextLineHeight()) / 2;
  const auto put = [&](float x, absl::string_view text, ImU32 color, float until) {
    DrawShortened(list, ImVec2(at.x + x, y), until, text, color);
  };
  put(4 * px, FormatClock(line.time, model.options().zone), theme.dim, right);
  const ImU32 color = LevelColor(theme, line.level);
  if (line.level >= LogLevel::kWarning) {
    list->AddRectFilled(ImVec2(at.x + 92 * px, at.y + 2),
                        ImVec2(at.x + 105 * px, at.y + height - 2), Fade(color, 0.2F), 2);
  }
  put(94 * px, LogLevelLetter(line.level), color, right);
  const ImU32 ink = theme.series[static_cast<size_t>(line.executor_id) % std::size(theme.series)];
  put(112 * px, name, ink, at.x + 218 * px);
  put(226 * px, line.text, line.level >= LogLevel::kWarning ? color : theme.text, right);
  ImGui::PopFont();
}

void LogsPanel::Lines(const ViewContext& context, Commands* commands) {
  const DashboardModel& model = context.model;
  const auto& matches = filter_.matches();
  const float height = 18 * context.scale;
  if (!follow_ && !matches.empty() && matches.front() != front_) {
    // The oldest lines went: what is read stays where it is.
    const auto place = static_cast<double>(filter_.LowerBound(top_line_));
    const double offset = top_line_ >= matches.front() ? top_offset_ : 0;
    ImGui::SetNextWindowScroll(ImVec2(-1, static_cast<float>(place * height + offset)));
  }
  front_ = matches.empty() ? 0 : matches.front();
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, 0));
  if (ImGui::BeginChild("lines", ImGui::GetContentRegionAvail(), 0)) {
    if (matches.empty()) {
      EmptyState(
          context.theme, icon::kSearch,
          model.logs().size() == 0 ? "No lines yet" : "No line matches",
          model.logs().size() == 0
              ? "What nodes write to stdout and stderr, and what their agents say, comes here."
              : "Search fewer words, choose another level, or all nodes.");
    }
    // The wheel means: I want to read this.
    if (ImGui::IsWindowHovered() && ImGui::GetIO().MouseWheel > 0) follow_ = false;
    if (scroll_to_ >= 0) {
      const size_t place = filter_.LowerBound(static_cast<uint64_t>(scroll_to_));
      ImGui::SetScrollY(static_cast<float>(place) * height);
      if (complete_) scroll_to_ = -1;
    }
    if (!matches.empty()) {
      const double y = ImGui::GetScrollY();
      const size_t top = std::min(matches.size() - 1, static_cast<size_t>(y / height));
      top_line_ = matches[top];
      top_offset_ = y - static_cast<double>(top) * height;
    }
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(matches.size()), height);
    while (clipper.Step()) {
      for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
        Row(context, matches[static_cast<size_t>(i)], commands);
      }
    }
    if (follow_) {
      ImGui::SetScrollY(ImGui::GetScrollMaxY() + height * 4);
    } else if (ImGui::GetScrollMaxY() > 0 && ImGui::GetScrollY() >= ImGui::GetScrollMaxY() &&
               ImGui::IsWindowHovered() && ImGui::GetIO().MouseWheel < 0) {
      follow_ = true;  // down at the end: goes on with it
    }
  }
  ImGui::EndChild();
  ImGui::PopStyleVar();
}

void LogsPanel::Draw(const ViewContext& context, Commands* commands) {
  const DashboardModel& model = context.model;
  if (shown_cluster_ != context.cluster) {
    // Another cluster's lines have other numbers.
    shown_cluster_ = context.cluster;
    filter_.Reset();
    follow_ = true;
    scroll_to_ = -1;
  }
  if (context.selection.event != shown_event_) {
    shown_event_ = context.selection.event;
    if (const TimelineEvent* event =
            shown_event_ < 0 ? nullptr : model.timeline().Find(static_cast<uint64_t>(shown_event_));
        event != nullptr) {
      follow_ = false;
      scroll_to_ = static_cast<int64_t>(model.logs().LowerBound(event->time - kBeforeEvent));
    }
  }
  if (!(context.brush == shown_brush_)) {
    if (!context.brush.live && context.brush.from != shown_brush_.from) {
      follow_ = false;
      scroll_to_ = static_cast<int64_t>(model.logs().LowerBound(context.brush.from));
    } else if (context.brush.live && !shown_brush_.live) {
      follow_ = true;
    }
    shown_brush_ = context.brush;
  }
  LogQuery query;
  query.text = text_;
  query.min_level = static_cast<LogLevel>(level_);
  query.executor_id = only_selected_ ? context.selection.node : -1;
  filter_.SetQuery(query);
  complete_ = filter_.Update(model.logs(), kLinesPerFrame);
  Toolbar(context, commands);
  Lines(context, commands);
}

void LogsPanel::TakeChoices(const PanelView& other) {
  const auto& from = static_cast<const LogsPanel&>(other);
  text_ = from.text_;
  level_ = from.level_;
  only_selected_ = from.only_selected_;
}

}  // namespace millrace::dashboard
