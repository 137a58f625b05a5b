#include "dashboard/views/status_bar.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/client/cluster_view.h"
#include "dashboard/model/format.h"
#include "dashboard/views/history_plot.h"
#include "dashboard/views/widgets.h"
#include "imgui.h"

namespace millrace::dashboard {
namespace {

struct Link {
  const char* text;
  ImU32 color;
};

Link LinkOf(const Theme& theme, const LinkHealth& health) {
  switch (health.link.kind) {
    case LinkState::Kind::kConnecting:
      return {"connecting", theme.joined};
    case LinkState::Kind::kLive:
      return health.stale ? Link{"late", theme.caution} : Link{"live", theme.good};
    case LinkState::Kind::kStale:
      return {"connection lost", theme.caution};
    case LinkState::Kind::kEnded:
      return {"ended", theme.dim};
    case LinkState::Kind::kLost:
      return {"driver gone", theme.bad};
    case LinkState::Kind::kRefused:
      return {"refused", theme.bad};
  }
  return {"", theme.dim};
}

// Draws what has room on the line; the least important things are asked for last.
class Items {
 public:
  Items(const Theme& theme, float scale, float right)
      : theme_(theme), scale_(scale), right_(right) {}

  bool Add(absl::string_view text, ImU32 color, const char* tip, bool mono = true) {
    ImGui::PushFont(mono ? theme_.fonts.mono : theme_.fonts.text, mono ? kMonoSize : kTextSize);
    const float width = ImGui::CalcTextSize(text.data(), text.data() + text.size()).x;
    const float gap = first_ ? 0 : 18 * scale_;
    const bool fits = x_ + gap + width <= right_;
    if (fits) {
      if (!first_) {
        ImGui::SameLine(0, gap);
        const ImVec2 at = ImGui::GetCursorScreenPos();
        ImGui::GetWindowDrawList()->AddCircleFilled(
            ImVec2(at.x - gap / 2, at.y + ImGui::GetFrameHeight() / 2), 1.5F * scale_, theme_.line);
      }
      ImGui::AlignTextToFramePadding();
      Text(theme_, text, color);
      Tip(tip);
      x_ = ImGui::GetItemRectMax().x - ImGui::GetWindowPos().x;
      first_ = false;
    }
    ImGui::PopFont();
    return fits;
  }

 private:
  const Theme& theme_;
  const float scale_;
  const float right_;
  float x_ = 0;
  bool first_ = true;
};

// The cluster's name and phase.
void DrawTitle(const ViewContext& context, const std::string& name) {
  const Theme& theme = context.theme;
  const ClusterFacts& cluster = context.model.cluster();
  const float px = context.scale;
  ImGui::PushFont(theme.fonts.strong, kTextSize);
  ImGui::AlignTextToFramePadding();
  Text(theme, name, theme.text);
  Tip(cluster.program.empty()
          ? absl::string_view(name)
          : absl::StrCat("cluster ", cluster.cluster_id, ", program ", cluster.shown_program(),
                         ", driver on ", cluster.driver_host, " (pid ", cluster.driver_pid, ")"));
  ImGui::PopFont();
  ImGui::SameLine(0, 10 * px);
  const std::string phase = absl::StrCat(" ", PhaseText(cluster.phase), " ");
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 size = ImGui::CalcTextSize(phase.c_str());
  const ImU32 color = PhaseColor(theme, cluster.phase);
  ImGui::GetWindowDrawList()->AddRectFilled(
      ImVec2(at.x, at.y + 2 * px), ImVec2(at.x + size.x, at.y + ImGui::GetFrameHeight() - 2 * px),
      color, 3 * px);
  ImGui::AlignTextToFramePadding();
  Text(theme, phase, ReadableOn(color));
  ImGui::SameLine(0, 12 * px);
}

void AddConnection(const Theme& theme, const DashboardModel& model, Items* items) {
  const ClusterFacts& cluster = model.cluster();
  const LinkHealth& health = model.health();
  items->Add(absl::StrCat(FormatCount(cluster.by_state[v1::SLOT_STATE_RUNNING]), "/",
                          FormatCount(cluster.num_slots), " running"),
             theme.text, "Slots that run, of all slots");
  const Link link = LinkOf(theme, health);
  const std::string reason = absl::StrCat(
      health.link.reason.empty() ? "The connection to the coordinator."
                                 : absl::string_view(health.link.reason),
      health.link.reconnects > 0 ? absl::StrCat(" Reconnected ", health.link.reconnects, " times.")
                                 : "");
  items->Add(link.text, link.color, reason.c_str());
  items->Add(absl::StrCat("data age ", FormatSpan(health.data_age)),
             health.stale ? theme.caution : theme.dim,
             "Since the last update from the coordinator");
  items->Add(absl::StrCat("epoch ", cluster.epoch), theme.dim, "Of the membership");
}

void AddRates(const Theme& theme, const DashboardModel& model, Items* items) {
  const float bytes = model.cluster_value(ClusterMetric::kBytes);
  const float rows = model.cluster_value(ClusterMetric::kRows);
  const auto trend = [&](ClusterMetric metric) {
    return TrendArrow(model.cluster_history(metric), model.now());
  };
  if (Known(bytes))
    items->Add(absl::StrCat(FormatBytesRate(bytes), " in ", trend(ClusterMetric::kBytes)),
               theme.text,
               "Bytes that all nodes' feeds receive; the last 8 s beside the 32 before");
  if (Known(rows))
    items->Add(absl::StrCat(FormatSi(rows, "rows/s"), " ", trend(ClusterMetric::kRows)), theme.text,
               "Rows that all nodes' feeds receive; the last 8 s beside the 32 before");
}

// What this window missed or did not take.
void AddLosses(const Theme& theme, const LinkHealth& health, Items* items) {
  const uint64_t dropped = health.dropped_metrics + health.dropped_events +
                           health.dropped_log_lines + health.dropped_updates;
  if (dropped > 0)
    items->Add(absl::StrCat("dropped ", FormatCount(static_cast<int64_t>(dropped))), theme.caution,
               "Metrics, events, log lines and updates that this window came too late for; newest "
               "values are never lost");
  if (health.refused_updates > 0)
    items->Add(absl::StrCat("refused ", health.refused_updates), theme.bad,
               health.last_refusal.c_str());
}

// Live or paused, and the span of time that is shown.
void DrawBrush(const ViewContext& context, Commands* commands) {
  const Theme& theme = context.theme;
  const float px = context.scale;
  const bool live = context.brush.live;
  ImGui::PushStyleColor(ImGuiCol_Button,
                        live ? Fade(theme.good, 0.25F) : Fade(theme.caution, 0.35F));
  if (ImGui::Button(live ? absl::StrCat(icon::kPlay, " live").c_str()
                         : absl::StrCat(icon::kPause, " paused").c_str(),
                    ImVec2(84 * px, 0))) {
    TimeBrush brush = context.brush;
    brush.live = !live;
    const TimeRange range = Range(context);
    brush.from = range.from;
    brush.to = range.to;
    commands->SetBrush(brush);
  }
  ImGui::PopStyleColor();
  Tip(live ? "Follows the newest data. Space pauses."
           : "Shows a span of the past. Esc returns to live.");
  ImGui::SameLine();
  absl::Duration span = context.brush.span;
  if (SpanChoice(theme, &span)) commands->SetBrush({.live = true, .span = span});
}

// Play, speed and place of a recording.
void DrawReplay(const ViewContext& context, const StatusFacts& facts, StatusActions* actions) {
  const Theme& theme = context.theme;
  const float px = context.scale;
  if (ImGui::Button(facts.paused ? icon::kPlay : icon::kPause, ImVec2(34 * px, 0)))
    actions->toggle_pause = true;
  ImGui::SameLine();
  double speed = facts.speed;
  if (SpeedChoice(theme, &speed)) actions->speed = speed;
  ImGui::SameLine();
  const double total = std::max(0.001, absl::ToDoubleSeconds(facts.end - facts.begin));
  auto place = static_cast<float>(absl::ToDoubleSeconds(facts.position - facts.begin) / total);
  ImGui::SetNextItemWidth(std::max(60.0F, ImGui::GetContentRegionAvail().x - 190 * px));
  if (ImGui::SliderFloat("##position", &place, 0, 1, "", ImGuiSliderFlags_NoInput)) {
    actions->seek = true;
    actions->position = facts.begin + absl::Seconds(place * total);
  }
  ImGui::SameLine();
  ImGui::AlignTextToFramePadding();
  Mono(theme,
       absl::StrCat(FormatClock(facts.position, context.model.options().zone), " / ",
                    FormatSpan(facts.end - facts.begin)),
       theme.text);
}

}  // namespace

StatusActions StatusBar::Draw(const ViewContext& context, const StatusFacts& facts,
                              Commands* commands) {
  StatusActions actions;
  const Theme& theme = context.theme;
  const float px = context.scale;
  const float width = ImGui::GetWindowWidth();
  // As wide as it was in the last frame.
  const float buttons = right_width_ > 0 ? right_width_ : 420 * px;
  const ImVec2 line = ImGui::GetCursorPos();

  Items items(theme, px, width - buttons);
  DrawTitle(context, facts.title);
  AddConnection(theme, context.model, &items);
  AddRates(theme, context.model, &items);
  AddLosses(theme, context.model.health(), &items);
  if (facts.recording) items.Add("REC", theme.bad, "This session is recorded");
  items.Add(absl::StrCat("frame ", FormatSpan(facts.frame)), theme.dim,
            "To build a frame of this window");
  items.Add(context.operator_allowed ? "operator" : "viewer", theme.dim,
            context.operator_allowed ? "It may restart nodes and stop the cluster"
                                     : "It only reads; the operator's token may do more");

  // From the right: time brush, palette, operator.
  ImGui::SetCursorPos(ImVec2(width - buttons, line.y));
  DrawBrush(context, commands);
  ImGui::SameLine();
  if (ImGui::Button("Ctrl+P")) actions.palette = true;
  Tip("Find any panel, node or action");
  if (context.operator_allowed) {
    ImGui::SameLine();
    ImGui::PushStyleColor(ImGuiCol_Text, theme.bad);
    if (ImGui::Button(absl::StrCat(icon::kStop, " Stop…").c_str())) commands->StopCluster();
    ImGui::PopStyleColor();
    Tip("Stop the cluster, after a question");
  }
  right_width_ = ImGui::GetItemRectMax().x - ImGui::GetWindowPos().x - (width - buttons) + 10 * px;
  if (!context.brush.live || facts.paused) {
    // Paused is seen from afar.
    const ImVec2 pos = ImGui::GetWindowPos();
    ImGui::GetWindowDrawList()->AddRectFilled(pos, ImVec2(pos.x + width, pos.y + 3 * px),
                                              theme.caution);
  }
  if (facts.replay) {
    ImGui::SetCursorPosX(line.x);
    DrawReplay(context, facts, &actions);
  }
  return actions;
}

}  // namespace millrace::dashboard
