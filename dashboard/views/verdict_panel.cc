#include "dashboard/views/verdict_panel.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/client/cluster_view.h"
#include "dashboard/model/format.h"
#include "dashboard/views/widgets.h"
#include "imgui.h"

namespace millrace::dashboard {

void VerdictPanel::Sentence(const ViewContext& context, const char* question,
                            const VerdictSentence& sentence, Commands* commands) {
  const Theme& theme = context.theme;
  const float scale = context.scale;
  const ImU32 color = MoodColor(theme, sentence.mood);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x;
  const float pad = 9 * scale;
  const float left = 30 * scale;
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->ChannelsSplit(2);
  list->ChannelsSetCurrent(1);

  ImGui::PushID(question);
  ImGui::BeginGroup();
  ImGui::SetCursorScreenPos(ImVec2(at.x + left, at.y + pad * 0.7F));
  SmallText(theme, question, theme.dim);
  ImGui::SetCursorScreenPos(ImVec2(at.x + left, ImGui::GetCursorScreenPos().y - 3 * scale));
  ImGui::PushTextWrapPos(ImGui::GetCursorPosX() + width - left - pad);
  Text(theme, sentence.text.empty() ? "–" : WithUnitsKept(sentence.text),
       sentence.mood == Mood::kNeutral ? theme.dim : theme.text);
  ImGui::PopTextWrapPos();
  ImGui::EndGroup();
  const float bottom = ImGui::GetItemRectMax().y + pad;
  list->AddText(ImVec2(at.x + 10 * scale, at.y + pad + 9 * scale), color, MoodIcon(sentence.mood));

  ImGui::SetCursorScreenPos(at);
  const bool clicked =
      ImGui::InvisibleButton("jump", ImVec2(width, bottom - at.y), ImGuiButtonFlags_EnableNav);
  const bool hovered = ImGui::IsItemHovered();
  if (clicked) commands->Go(sentence.jump);
  if (BeginTip()) {
    Text(theme,
         sentence.evidence.empty() ? "Nothing more is known about this."
                                   : absl::string_view(sentence.evidence),
         theme.text);
    Text(theme, absl::StrCat("Click or Enter: ", PanelName(sentence.jump.panel)), theme.dim);
    EndTip();
  }
  list->ChannelsSetCurrent(0);
  list->AddRectFilled(at, ImVec2(at.x + width, bottom),
                      hovered ? ImGui::GetColorU32(ImGuiCol_ButtonHovered) : theme.raised,
                      4 * scale);
  list->AddRectFilled(at, ImVec2(at.x + 3 * scale, bottom), color, 4 * scale,
                      ImDrawFlags_RoundLeft);
  list->ChannelsMerge();
  ImGui::PopID();
  ImGui::SetCursorScreenPos(ImVec2(at.x, bottom + 6 * scale));
  ImGui::Dummy(ImVec2(0, 0));
}

void VerdictPanel::Warnings(const ViewContext& context, Commands* commands) {
  const std::vector<const Warning*> warnings = context.model.warnings();
  if (warnings.empty()) return;
  const Theme& theme = context.theme;
  ImGui::Spacing();
  Heading(theme, absl::StrCat("ATTENTION  ", warnings.size()));
  constexpr size_t kShown = 6;
  for (size_t i = 0; i < warnings.size() && i < kShown; ++i) {
    const Warning& warning = *warnings[i];
    ImGui::PushID(warning.id.c_str());
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float left = 22 * context.scale;
    ImGui::GetWindowDrawList()->AddText(at, MoodColor(theme, warning.mood), MoodIcon(warning.mood));
    const float width = ImGui::GetContentRegionAvail().x;
    ImGui::SetCursorScreenPos(ImVec2(at.x + left, at.y));
    ImGui::BeginGroup();
    WrappedText(warning.text, theme.text);
    ImGui::EndGroup();
    const float height = ImGui::GetItemRectSize().y;
    ImGui::SetCursorScreenPos(at);
    if (ImGui::InvisibleButton("go", ImVec2(width, std::max(1.0F, height)),
                               ImGuiButtonFlags_EnableNav))
      commands->Go(warning.jump);
    Tip(absl::StrCat("Since ", FormatSpan(context.model.now() - warning.since),
                     ". Click: ", PanelName(warning.jump.panel)));
    ImGui::PopID();
  }
  if (warnings.size() > kShown) {
    SmallText(theme, absl::StrCat("and ", warnings.size() - kShown, " more"), theme.dim);
  }
}

void VerdictPanel::Clusters(const ViewContext& context, Commands* commands) {
  if (context.clusters.size() < 2) return;
  ImGui::Spacing();
  Heading(context.theme, "CLUSTERS");
  for (size_t i = 0; i < context.clusters.size(); ++i) {
    const ClusterEntry& entry = context.clusters[i];
    ImGui::PushID(static_cast<int>(i));
    if (ImGui::Selectable("##cluster", static_cast<int>(i) == context.cluster))
      commands->ShowCluster(static_cast<int>(i));
    ImGui::SameLine(0, 0);
    Text(context.theme, MoodIcon(entry.mood), MoodColor(context.theme, entry.mood));
    ImGui::SameLine();
    Text(context.theme, entry.title, context.theme.text);
    ImGui::SameLine();
    MonoRight(context.theme, entry.summary, context.theme.dim);
    ImGui::PopID();
  }
}

void VerdictPanel::Roles(const ViewContext& context, Commands* commands) {
  const DashboardModel& model = context.model;
  if (roles_version_ != model.slots_version()) {
    roles_version_ = model.slots_version();
    roles_.clear();
    for (const NodeState& node : model.nodes()) {
      auto role = std::find_if(roles_.begin(), roles_.end(),
                               [&](const Role& r) { return r.job == node.job; });
      if (role == roles_.end()) role = roles_.insert(roles_.end(), Role{.job = node.job});
      ++role->total;
      const int state = static_cast<int>(node.state);
      if (state >= 0 && state < kSlotStates) ++role->by_state[static_cast<size_t>(state)];
    }
  }
  if (roles_.empty()) return;
  const Theme& theme = context.theme;
  ImGui::Spacing();
  Heading(theme, "ROLES");
  for (const Role& role : roles_) {
    ImGui::PushID(role.job.c_str());
    std::vector<BarPart> parts;
    for (size_t state = 0; state < role.by_state.size(); ++state) {
      parts.push_back({static_cast<float>(role.by_state[state]),
                       StateColor(theme, static_cast<v1::SlotState>(state))});
    }
    const int good = role.by_state[v1::SLOT_STATE_READY] + role.by_state[v1::SLOT_STATE_RUNNING];
    ImGui::BeginGroup();
    Text(theme, role.job.empty() ? "–" : absl::string_view(role.job), theme.text);
    ImGui::SameLine();
    MonoRight(theme, absl::StrCat(FormatCount(good), "/", FormatCount(role.total)),
              good == role.total ? theme.text : theme.caution);
    StackedBar(theme, ImVec2(ImGui::GetContentRegionAvail().x, 5 * context.scale),
               static_cast<float>(role.total), parts);
    ImGui::EndGroup();
    if (BeginTip()) {
      for (size_t state = 0; state < role.by_state.size(); ++state) {
        if (role.by_state[state] == 0) continue;
        StateBadge(theme, static_cast<v1::SlotState>(state),
                   absl::StrCat(role.by_state[state], " ",
                                SlotStateText(static_cast<v1::SlotState>(state))));
      }
      EndTip();
    }
    if (ImGui::IsItemClicked()) commands->Go({.panel = Panel::kNodes});
    ImGui::PopID();
  }
}

void VerdictPanel::Hosts(const ViewContext& context, Commands* commands) {
  const DashboardModel& model = context.model;
  if (model.hosts().empty()) return;
  const Theme& theme = context.theme;
  ImGui::Spacing();
  Heading(theme, absl::StrCat("HOSTS  ", FormatCount(static_cast<int64_t>(model.hosts().size()))));
  ImGuiListClipper clipper;
  clipper.Begin(static_cast<int>(model.hosts().size()));
  while (clipper.Step()) {
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
      const HostState& host = model.hosts()[static_cast<size_t>(i)];
      ImGui::PushID(i);
      if (ImGui::Selectable("##host", context.selection.host == i)) {
        Selection selection;
        selection.host = i;
        if (!host.nodes.empty()) selection.node = host.nodes.front();
        commands->Select(selection);
      }
      ImGui::SameLine(0, 0);
      Mono(theme, host.name, theme.text);
      ImGui::SameLine();
      std::string facts =
          host.nodes.size() == 1 ? "1 node" : absl::StrCat(host.nodes.size(), " nodes");
      if (!host.gpus.empty()) {
        absl::StrAppend(&facts, " · ", host.gpus.size(), host.gpus.size() == 1 ? " GPU" : " GPUs");
      } else if (!host.gpus_unknown.empty()) {
        absl::StrAppend(&facts, " · GPUs ?");
      }
      ImGui::PushFont(theme.fonts.text, kSmallSize);
      const float room = ImGui::GetContentRegionAvail().x - ImGui::CalcTextSize(facts.c_str()).x;
      if (room > 0) ImGui::SetCursorPosX(ImGui::GetCursorPosX() + room);
      Text(theme, facts, theme.dim);
      ImGui::PopFont();
      ImGui::PopID();
    }
  }
}

void VerdictPanel::Draw(const ViewContext& context, Commands* commands) {
  const DashboardModel& model = context.model;
  Sentence(context, "Why has it not started?", model.verdict().start, commands);
  Sentence(context, "Why are my GPUs idle?", model.verdict().gpus, commands);
  Sentence(context, "What broke first?", model.verdict().failure, commands);
  Warnings(context, commands);
  Clusters(context, commands);
  Roles(context, commands);
  Hosts(context, commands);
}

}  // namespace millrace::dashboard
