#include "dashboard/app/compare_bar.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/client/cluster_view.h"
#include "dashboard/app/panels.h"
#include "dashboard/model/format.h"
#include "dashboard/views/history_plot.h"
#include "dashboard/views/widgets.h"
#include "imgui.h"

namespace millrace::dashboard {
namespace {

// In the order of their keys.
constexpr Panel kOrder[] = {
    Panel::kReservations, Panel::kNodes,      Panel::kGpus,     Panel::kFeed,    Panel::kMetrics,
    Panel::kLogs,         Panel::kMembership, Panel::kTimeline, Panel::kDetails, Panel::kVerdict};
constexpr const char* kLetters[] = {"A", "B"};

ImU32 Mark(const Theme& theme, size_t place) { return theme.series[place]; }

std::string FormatPlace(absl::Duration place) {
  const absl::Duration whole = absl::Trunc(place, absl::Milliseconds(100));
  return absl::StrCat(whole < absl::ZeroDuration() ? "" : "+", FormatSpan(whole));
}

// ---- how the numbers differ ----

enum class Better { kMore, kLess };

struct Number {
  const char* name;
  const char* tip;
  ValueUnit unit;  // of seconds: kNumber
  bool seconds = false;
  bool points = false;  // shares differ by points, others by per cent of B's
  Better better = Better::kMore;
  std::array<double, 2> values{kUnknown, kUnknown};
};

// Means over the time that both have data of.
void AddMean(const std::array<const DashboardModel*, 2>& models, const Comparison& comparison,
             ClusterMetric metric, Number number, std::vector<Number>* numbers) {
  const Comparison::Common common = comparison.common();
  std::vector<HistoryPoint> points;
  for (size_t i = 0; i < models.size() && !common.empty(); ++i) {
    const absl::Time zero = comparison.ZeroOf(i);
    models[i]->cluster_history(metric).Query(0, zero + common.from, zero + common.to, 1, &points);
    if (!points.empty()) number.values[i] = points.front().mean;
  }
  numbers->push_back(number);
}

std::vector<Number> NumbersOf(const std::array<const DashboardModel*, 2>& models,
                              const Comparison& comparison) {
  std::vector<Number> numbers;
  Number ready{.name = "ready",
               .tip = "From the start of the cluster until all its nodes ran",
               .unit = ValueUnit::kNumber,
               .seconds = true,
               .better = Better::kLess};
  for (size_t i = 0; i < models.size(); ++i) {
    const absl::Time ran = models[i]->all_ran();
    if (ran != absl::InfinitePast())
      ready.values[i] = absl::ToDoubleSeconds(ran - models[i]->cluster().started);
  }
  numbers.push_back(ready);
  AddMean(models, comparison, ClusterMetric::kRows,
          {.name = "rows",
           .tip = "Rows that all nodes' feeds receive, mean of the shown time that both have",
           .unit = ValueUnit::kRows},
          &numbers);
  AddMean(models, comparison, ClusterMetric::kGpuUtilization,
          {.name = "GPUs",
           .tip = "Utilisation of the nodes' GPUs, mean of the shown time that both have",
           .unit = ValueUnit::kPercent,
           .points = true},
          &numbers);
  AddMean(models, comparison, ClusterMetric::kStarved,
          {.name = "starved",
           .tip = "Share of time in which programs waited for rows, mean of the shown time that "
                  "both have",
           .unit = ValueUnit::kFraction,
           .points = true,
           .better = Better::kLess},
          &numbers);
  AddMean(models, comparison, ClusterMetric::kBytes,
          {.name = "in",
           .tip = "Bytes that all nodes' feeds receive, mean of the shown time that both have",
           .unit = ValueUnit::kBytesRate},
          &numbers);
  return numbers;
}

std::string ValueOf(const Number& number, size_t i) {
  if (!Known(number.values[i])) return "–";
  return number.seconds ? FormatSpan(absl::Seconds(number.values[i]))
                        : FormatValue(number.unit, number.values[i]);
}

// How A differs from B, and whether that is good, bad or nothing.
std::string DifferenceOf(const Number& number, Mood* mood) {
  const double a = number.values[0];
  const double b = number.values[1];
  *mood = Mood::kNeutral;
  if (!Known(a) || !Known(b)) return "";
  if (!number.points && std::fabs(b) < 1e-12) return "";
  const double percent = number.unit == ValueUnit::kFraction ? (a - b) * 100
                         : number.points                     ? a - b
                                                             : (a / b - 1) * 100;
  if (std::fabs(percent) >= (number.points ? 2 : 5))
    *mood = (percent > 0) == (number.better == Better::kMore) ? Mood::kGood : Mood::kBad;
  if (!number.points && percent > 999) return absl::StrFormat("x%.0f", a / b);
  return absl::StrFormat("%+.0f%s", std::round(percent) + 0.0, number.points ? " points" : "%");
}

// Numbers that have room, the most important first.
void DrawNumbers(const Theme& theme, float scale, float right,
                 const std::array<const DashboardModel*, 2>& models, const Comparison& comparison) {
  ImGui::AlignTextToFramePadding();
  Text(theme, "A against B", theme.dim);
  Tip("How A differs from B: of rates and times in per cent of B's, of shares in points");
  float x = ImGui::GetItemRectMax().x - ImGui::GetWindowPos().x;
  const float gap = 22 * scale;
  const float small = 7 * scale;
  for (const Number& number : NumbersOf(models, comparison)) {
    Mood mood = Mood::kNeutral;
    const std::string difference = DifferenceOf(number, &mood);
    const std::string values[] = {ValueOf(number, 0), ValueOf(number, 1)};
    ImGui::PushFont(theme.fonts.mono, kMonoSize);
    float width =
        ImGui::CalcTextSize(absl::StrCat(values[0], values[1], difference).c_str()).x + 3 * small;
    ImGui::PopFont();
    width += ImGui::CalcTextSize(number.name).x;
    if (x + gap + width > right) return;
    ImGui::SameLine(0, gap);
    ImGui::BeginGroup();
    ImGui::AlignTextToFramePadding();
    Text(theme, number.name, theme.dim);
    for (size_t i = 0; i < 2; ++i) {
      ImGui::SameLine(0, small);
      Mono(theme, values[i], Mark(theme, i));
    }
    if (!difference.empty()) {
      ImGui::SameLine(0, small);
      Mono(theme, difference, mood == Mood::kNeutral ? theme.dim : MoodColor(theme, mood));
    }
    ImGui::EndGroup();
    Tip(number.tip);
    x = ImGui::GetItemRectMax().x - ImGui::GetWindowPos().x;
  }
}

// ---- controls ----

void DrawPanels(const Theme& theme, float room, Panel shown, CompareActions* actions) {
  std::vector<const char*> names;
  float width = 0;
  int chosen = 0;
  for (size_t i = 0; i < std::size(kOrder); ++i) {
    names.push_back(PanelTitle(kOrder[i]));
    width += ImGui::CalcTextSize(names.back()).x + 2 * ImGui::GetStyle().FramePadding.x + 2;
    if (kOrder[i] == shown) chosen = static_cast<int>(i);
  }
  if (width <= room) {
    if (Choice(theme, "panel", names, &chosen)) actions->panel = kOrder[chosen];
    return;
  }
  ImGui::SetNextItemWidth(std::min(room, ImGui::GetFontSize() * 11));
  if (!ImGui::BeginCombo("##panel", PanelTitle(shown))) return;
  for (const Panel panel : kOrder) {
    if (ImGui::Selectable(PanelTitle(panel), panel == shown)) actions->panel = panel;
  }
  ImGui::EndCombo();
}

void DrawSpan(const Theme& theme, float scale, Comparison* comparison) {
  const bool live = comparison->brush().live;
  ImGui::PushStyleColor(ImGuiCol_Button,
                        live ? Fade(theme.good, 0.25F) : Fade(theme.caution, 0.35F));
  if (ImGui::Button(live ? absl::StrCat(icon::kPlay, " newest").c_str()
                         : absl::StrCat(icon::kPause, " past").c_str(),
                    ImVec2(94 * scale, 0))) {
    comparison->SetLive(!live);
  }
  ImGui::PopStyleColor();
  Tip(live ? "Both are shown up to the place below, or up to the age of the younger"
           : "A span of both is shown. Esc goes back");
  ImGui::SameLine();
  absl::Duration span = comparison->brush().span;
  if (SpanChoice(theme, &span)) comparison->SetSpan(span);
}

void DrawScrubber(const Theme& theme, float scale, Comparison* comparison) {
  if (ImGui::Button(comparison->paused() ? icon::kPlay : icon::kPause, ImVec2(34 * scale, 0)))
    comparison->SetPaused(!comparison->paused());
  Tip("Plays and pauses both");
  ImGui::SameLine();
  double speed = comparison->speed();
  if (SpeedChoice(theme, &speed)) comparison->SetSpeed(speed);
  ImGui::SameLine();
  const absl::Duration begin = comparison->begin();
  const double total = std::max(0.001, absl::ToDoubleSeconds(comparison->end() - begin));
  auto place = static_cast<float>(absl::ToDoubleSeconds(comparison->place() - begin) / total);
  ImGui::SetNextItemWidth(std::max(60.0F, ImGui::GetContentRegionAvail().x - 230 * scale));
  if (ImGui::SliderFloat("##position", &place, 0, 1, "", ImGuiSliderFlags_NoInput))
    comparison->Seek(begin + absl::Seconds(place * total));
  Tip("The place of both, since the start of each");
  ImGui::SameLine();
  ImGui::AlignTextToFramePadding();
  Mono(theme, absl::StrCat(FormatPlace(comparison->place()), " / ", FormatPlace(comparison->end())),
       theme.text);
}

}  // namespace

float CompareBar::Height(const Comparison& comparison) {
  const int rows = comparison.aligned() && comparison.scrubbable() ? 3 : 2;
  return static_cast<float>(rows) * ImGui::GetFrameHeight() +
         static_cast<float>(rows - 1) * ImGui::GetStyle().ItemSpacing.y;
}

CompareActions CompareBar::Draw(const Theme& theme, float scale, Panel panel,
                                const std::array<const DashboardModel*, 2>& models,
                                Comparison* comparison) {
  CompareActions actions;
  const float width = ImGui::GetWindowWidth();
  const float buttons = right_width_ > 0 ? right_width_ : 420 * scale;
  const ImVec2 line = ImGui::GetCursorPos();
  DrawPanels(theme, width - buttons - line.x, panel, &actions);
  ImGui::SetCursorPos(ImVec2(width - buttons, line.y));
  ImGui::BeginDisabled(!comparison->aligned());
  DrawSpan(theme, scale, comparison);
  ImGui::EndDisabled();
  ImGui::SameLine();
  if (ImGui::Button("Ctrl+P")) actions.palette = true;
  Tip("Find any panel, node or action");
  ImGui::SameLine();
  if (ImGui::Button(icon::kCross)) actions.leave = true;
  Tip("Back to A alone (C)");
  right_width_ = ImGui::GetItemRectMax().x - ImGui::GetWindowPos().x - (width - buttons) + line.x;
  if (!comparison->aligned()) {
    ImGui::SetCursorPosX(line.x);
    ImGui::AlignTextToFramePadding();
    Text(theme, "Their times are aligned as soon as both have told when they began.", theme.dim);
    return actions;
  }
  if (!comparison->brush().live || comparison->paused()) {
    const ImVec2 pos = ImGui::GetWindowPos();
    ImGui::GetWindowDrawList()->AddRectFilled(pos, ImVec2(pos.x + width, pos.y + 3 * scale),
                                              theme.caution);
  }
  if (comparison->scrubbable()) {
    ImGui::SetCursorPosX(line.x);
    DrawScrubber(theme, scale, comparison);
  }
  ImGui::SetCursorPosX(line.x);
  static constexpr const char* kZeros[] = {"from the start", "from all ran"};
  const float frame = 2 * ImGui::GetStyle().FramePadding.x;
  const float zeros =
      ImGui::CalcTextSize(kZeros[0]).x + ImGui::CalcTextSize(kZeros[1]).x + 2 * frame + 2 + line.x;
  const float top = ImGui::GetCursorPosY();
  DrawNumbers(theme, scale, width - zeros - 10 * scale, models, *comparison);
  ImGui::SetCursorPos(ImVec2(width - zeros, top));
  int zero = comparison->zero() == Comparison::Zero::kRan ? 1 : 0;
  ImGui::BeginDisabled(!comparison->knows(Comparison::Zero::kRan));
  if (Choice(theme, "zero", kZeros, &zero))
    comparison->SetZero(zero == 1 ? Comparison::Zero::kRan : Comparison::Zero::kStarted);
  ImGui::EndDisabled();
  return actions;
}

float CompareHeadHeight(const CompareHead& head, float width) {
  const float row = ImGui::GetFrameHeight();
  if (head.trouble.empty()) return row;
  return row + ImGui::GetStyle().ItemSpacing.y +
         ImGui::CalcTextSize(head.trouble.c_str(), nullptr, false, width).y;
}

void DrawCompareHead(const Theme& theme, float scale, const CompareHead& head,
                     const DashboardModel& model, const Comparison& comparison) {
  const ClusterFacts& cluster = model.cluster();
  const float row = ImGui::GetFrameHeight();
  ImDrawList* list = ImGui::GetWindowDrawList();
  const auto badge = [&](const std::string& text, ImU32 color) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float width = ImGui::CalcTextSize(text.c_str()).x;
    list->AddRectFilled(ImVec2(at.x, at.y + 2 * scale),
                        ImVec2(at.x + width, at.y + row - 2 * scale), color, 3 * scale);
    ImGui::AlignTextToFramePadding();
    Text(theme, text, ReadableOn(color));
  };
  ImGui::PushFont(theme.fonts.strong, kTextSize);
  badge(absl::StrCat("  ", kLetters[head.place], "  "), Mark(theme, head.place));
  ImGui::PopFont();
  // What stands at the right is measured first: the name has what it leaves.
  const std::string phase = absl::StrCat(" ", PhaseText(cluster.phase), " ");
  const std::string running = absl::StrCat(FormatCount(cluster.by_state[v1::SLOT_STATE_RUNNING]),
                                           "/", FormatCount(cluster.num_slots), " running");
  std::string note;
  ImU32 color = theme.caution;
  if (comparison.aligned()) {
    const absl::Duration missing = comparison.Missing(head.place);
    const absl::Duration newest = comparison.Newest(head.place);
    const TimeBrush brush = comparison.BrushOf(head.place);
    if (missing < absl::ZeroDuration()) {
      note = absl::StrCat("recorded from ", FormatPlace(comparison.place() - missing));
    } else if (missing > absl::ZeroDuration()) {
      note = absl::StrCat("ended at ", FormatPlace(comparison.place() - missing));
    } else if (!brush.live) {
      note = absl::StrCat(icon::kClock, "  as of ",
                          FormatPlace(brush.to - comparison.ZeroOf(head.place)));
    } else {
      note = FormatPlace(newest);
      color = theme.dim;
    }
  }
  const float gap = 12 * scale;
  ImGui::PushFont(theme.fonts.mono, kMonoSize);
  const float right = ImGui::CalcTextSize(absl::StrCat(running, note).c_str()).x + 2 * gap;
  ImGui::PopFont();
  const float chip = ImGui::CalcTextSize(phase.c_str()).x;
  ImGui::SameLine(0, gap);
  ImGui::PushFont(theme.fonts.strong, kTextSize);
  const float room = ImGui::GetContentRegionAvail().x - right - chip - gap;
  const float name =
      std::min(ImGui::CalcTextSize(head.title.c_str()).x, std::max(40 * scale, room));
  ImGui::AlignTextToFramePadding();
  const ImVec2 at(ImGui::GetCursorScreenPos().x,
                  ImGui::GetCursorScreenPos().y + ImGui::GetStyle().FramePadding.y);
  DrawShortened(list, at, at.x + name + 1, head.title, theme.text);
  ImGui::Dummy(ImVec2(name, row));
  Tip(cluster.program.empty()
          ? absl::string_view(head.title)
          : absl::StrCat(head.title, ": cluster ", cluster.cluster_id, ", program ",
                         cluster.shown_program(), ", driver on ", cluster.driver_host));
  ImGui::PopFont();
  ImGui::SameLine(0, gap);
  badge(phase, PhaseColor(theme, cluster.phase));
  ImGui::SameLine(0, gap);
  ImGui::AlignTextToFramePadding();
  Mono(theme, running, theme.text);
  ImGui::SameLine(0, gap);
  ImGui::AlignTextToFramePadding();
  Mono(theme, note, color);
  Tip("The time since the start of this cluster that is shown");
  if (!head.trouble.empty()) WrappedText(head.trouble, MoodColor(theme, head.mood));
}

}  // namespace millrace::dashboard
