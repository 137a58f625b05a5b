#include "dashboard/views/membership_panel.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "core/base/json.h"
#include "core/client/cluster_view.h"
#include "core/cluster_spec/cluster_spec_json.h"
#include "dashboard/model/format.h"
#include "dashboard/views/widgets.h"
#include "imgui.h"

namespace millrace::dashboard {
namespace {

constexpr size_t kShownJson = 64 << 10;
constexpr size_t kShownChanges = 200;
constexpr float kEpochsPx = 250;
constexpr float kAbovePx = 690;

std::string Summary(const MembershipEpoch& epoch) {
  if (epoch.first) return "first known";
  std::string text;
  const auto add = [&text](size_t count, absl::string_view what) {
    if (count == 0) return;
    absl::StrAppend(&text, text.empty() ? "" : ", ", count, " ", what);
  };
  add(epoch.diff.added.size(), "added");
  add(epoch.diff.removed.size(), "removed");
  add(epoch.diff.moved.size(), "moved");
  return text.empty() ? "no change" : text;
}

}  // namespace

void MembershipPanel::Refresh(const ViewContext& context) {
  const Membership& membership = context.model.membership();
  if (epoch_ == membership.epoch() && cluster_ == context.cluster) return;
  if (cluster_ != context.cluster) shown_epoch_ = 0;
  epoch_ = membership.epoch();
  cluster_ = context.cluster;
  std::map<std::pair<std::string, int>, int> executors;
  for (const NodeState& node : context.model.nodes()) {
    executors[{node.job, node.task}] = node.executor_id;
  }
  jobs_.clear();
  for (const std::string& name : membership.spec().jobs()) {
    Job& job = jobs_.emplace_back();
    job.name = name;
    const auto tasks = membership.spec().TaskMapOf(name);
    if (!tasks.ok()) continue;
    for (const auto& [index, address] : **tasks) {
      const auto executor = executors.find({name, index});
      job.tasks.push_back({index, address, executor == executors.end() ? -1 : executor->second});
    }
  }
  json_.clear();
}

std::string MembershipPanel::Csv(const DashboardModel& model) const {
  CsvTable csv({"epoch", "time", "change", "task", "address", "before"});
  for (const MembershipEpoch& epoch : model.membership().epochs()) {
    const auto row = [&](absl::string_view change, absl::string_view job, int index,
                         absl::string_view address, absl::string_view before) {
      csv.Cell(static_cast<int64_t>(epoch.epoch));
      csv.Cell(FormatDateTime(epoch.time, model.options().zone));
      csv.Cell(change);
      csv.Cell(job.empty() ? std::string() : absl::StrCat(job, ":", index));
      csv.Cell(address);
      csv.Cell(before);
      csv.EndRow();
    };
    if (epoch.first) row("first known", "", 0, "", "");
    for (const auto& task : epoch.diff.added) row("added", task.job, task.index, task.address, "");
    for (const auto& task : epoch.diff.removed) {
      row("removed", task.job, task.index, "", task.address);
    }
    for (const auto& move : epoch.diff.moved) {
      row("moved", move.job, move.index, move.to, move.from);
    }
  }
  return csv.Take();
}

void MembershipPanel::Epochs(const ViewContext& context, Commands* commands) {
  const Theme& theme = context.theme;
  const Membership& membership = context.model.membership();
  ImGui::AlignTextToFramePadding();
  Heading(theme, "EPOCHS");
  ImGui::SameLine();
  if (IconButton(theme, icon::kDownload, "Export all epochs and what they changed as CSV"))
    commands->Export("membership", Csv(context.model));
  const auto& epochs = membership.epochs();
  const float room = ImGui::GetContentRegionAvail().y;
  if (ImGui::BeginTable("epochs", 3, ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_ScrollY,
                        ImVec2(0, room * 0.55F))) {
    ImGui::TableSetupColumn("epoch", ImGuiTableColumnFlags_WidthFixed, 44 * context.scale);
    ImGui::TableSetupColumn("what", ImGuiTableColumnFlags_WidthStretch);
    ImGui::TableSetupColumn("time", ImGuiTableColumnFlags_WidthFixed, 92 * context.scale);
    const uint64_t shown = shown_epoch_ == 0 ? epochs.back().epoch : shown_epoch_;
    for (auto epoch = epochs.rbegin(); epoch != epochs.rend(); ++epoch) {
      ImGui::TableNextRow(0, 22 * context.scale);
      ImGui::TableNextColumn();
      ImGui::PushID(static_cast<int>(epoch->epoch));
      if (ImGui::Selectable("##epoch", epoch->epoch == shown,
                            ImGuiSelectableFlags_SpanAllColumns)) {
        shown_epoch_ = epoch->epoch;
      }
      Tip(FormatAge(epoch->time, context.model.now()));
      ImGui::PopID();
      ImGui::SameLine(0, 0);
      Mono(theme, absl::StrCat(epoch->epoch), theme.accent);
      ImGui::TableNextColumn();
      Text(theme, Summary(*epoch), theme.text);
      ImGui::TableNextColumn();
      MonoRight(theme, FormatClock(epoch->time, context.model.options().zone), theme.dim);
    }
    ImGui::EndTable();
  }
  Heading(theme, "WHAT IT CHANGED");
  if (!ImGui::BeginChild("changes", ImGui::GetContentRegionAvail())) {
    ImGui::EndChild();
    return;
  }
  for (const MembershipEpoch& epoch : epochs) {
    if (epoch.epoch != (shown_epoch_ == 0 ? epochs.back().epoch : shown_epoch_)) continue;
    if (epoch.first) {
      WrappedText("The first epoch that this window has seen: nothing to compare it with.",
                  theme.dim);
    }
    size_t shown = 0;
    const auto change = [&](const char* sign, const std::string& text, ImU32 color) {
      if (++shown > kShownChanges) return;
      Mono(theme, sign, color);
      ImGui::SameLine(0, 6);
      ImGui::PushFont(theme.fonts.mono, kMonoSize);
      WrappedText(text, theme.text);
      ImGui::PopFont();
    };
    for (const auto& task : epoch.diff.added) {
      change("+", absl::StrCat(task.job, ":", task.index, " ", task.address), theme.good);
    }
    for (const auto& task : epoch.diff.removed) {
      change("-", absl::StrCat(task.job, ":", task.index, " ", task.address), theme.bad);
    }
    for (const auto& move : epoch.diff.moved) {
      change("~", absl::StrCat(move.job, ":", move.index, " ", move.from, " to ", move.to),
             theme.caution);
    }
    if (shown > kShownChanges) {
      Text(theme, absl::StrCat("and ", shown - kShownChanges, " more"), theme.dim);
    }
  }
  ImGui::EndChild();
}

void MembershipPanel::Tree(const ViewContext& context, Commands* commands) {
  const Theme& theme = context.theme;
  const DashboardModel& model = context.model;
  if (!ImGui::BeginChild("tree", ImGui::GetContentRegionAvail())) {
    ImGui::EndChild();
    return;
  }
  for (const Job& job : jobs_) {
    const std::string title =
        absl::StrCat(job.name, "  ", job.tasks.size(), job.tasks.size() == 1 ? " task" : " tasks");
    if (!ImGui::TreeNodeEx(title.c_str(),
                           ImGuiTreeNodeFlags_DefaultOpen | ImGuiTreeNodeFlags_SpanAvailWidth)) {
      continue;
    }
    if (ImGui::BeginTable("tasks", 4, ImGuiTableFlags_SizingFixedFit)) {
      ImGui::TableSetupColumn("task", ImGuiTableColumnFlags_WidthFixed, 92 * context.scale);
      ImGui::TableSetupColumn("address", ImGuiTableColumnFlags_WidthFixed, 160 * context.scale);
      ImGui::TableSetupColumn("state", ImGuiTableColumnFlags_WidthFixed, 96 * context.scale);
      ImGui::TableSetupColumn("host", ImGuiTableColumnFlags_WidthStretch);
      ImGuiListClipper clipper;
      clipper.Begin(static_cast<int>(job.tasks.size()), 22 * context.scale);
      while (clipper.Step()) {
        for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
          const Task& task = job.tasks[static_cast<size_t>(i)];
          ImGui::TableNextRow(0, 22 * context.scale);
          ImGui::TableNextColumn();
          ImGui::PushID(task.index);
          const bool selected = task.executor_id >= 0 && context.selection.node == task.executor_id;
          if (ImGui::Selectable("##task", selected, ImGuiSelectableFlags_SpanAllColumns) &&
              task.executor_id >= 0) {
            Selection selection = context.selection;
            selection.node = task.executor_id;
            commands->Select(selection);
          }
          ImGui::PopID();
          ImGui::SameLine(0, 0);
          Text(theme, absl::StrCat(job.name, ":", task.index), theme.text);
          ImGui::TableNextColumn();
          Mono(theme, task.address, theme.text);
          ImGui::TableNextColumn();
          if (task.executor_id < 0 ||
              static_cast<size_t>(task.executor_id) >= model.nodes().size()) {
            Text(theme, "no slot", theme.dim);
            continue;
          }
          const NodeState& node = model.nodes()[static_cast<size_t>(task.executor_id)];
          StateBadge(theme, node.state, SlotStateText(node.state));
          ImGui::TableNextColumn();
          Mono(theme, node.host, theme.dim);
        }
      }
      ImGui::EndTable();
    }
    ImGui::TreePop();
  }
  ImGui::EndChild();
}

void MembershipPanel::Json(const ViewContext& context, Commands* commands) {
  const Theme& theme = context.theme;
  if (json_.empty()) json_ = DumpJson(ClusterSpecToJson(context.model.membership().spec()), 2);
  if (IconButton(theme, icon::kCopy, "Copy the ClusterSpec as JSON")) commands->Copy(json_);
  ImGui::SameLine();
  SmallText(theme, absl::StrCat(FormatBytes(static_cast<double>(json_.size()))), theme.dim);
  if (ImGui::BeginChild("json", ImGui::GetContentRegionAvail(), 0,
                        ImGuiWindowFlags_HorizontalScrollbar)) {
    Mono(theme, absl::string_view(json_).substr(0, kShownJson), theme.text);
    if (json_.size() > kShownJson) Text(theme, "cut here; copying takes all of it", theme.dim);
  }
  ImGui::EndChild();
}

void MembershipPanel::Environment(const ViewContext& context, Commands* commands) {
  const Theme& theme = context.theme;
  const DashboardModel& model = context.model;
  // Without a selection the first task shows what it is about.
  std::string job;
  int index = 0;
  if (context.selection.node >= 0 &&
      static_cast<size_t>(context.selection.node) < model.nodes().size()) {
    const NodeState& node = model.nodes()[static_cast<size_t>(context.selection.node)];
    job = node.job;
    index = node.task;
  } else if (!jobs_.empty() && !jobs_.front().tasks.empty()) {
    job = jobs_.front().name;
    index = jobs_.front().tasks.front().index;
  }
  Text(theme, absl::StrCat("What ", job, ":", index, " finds in its environment"), theme.dim);
  const std::vector<EnvironmentBridge>& bridges = bridges_.Get(model.membership(), job, index);
  if (bridges.empty()) {
    EmptyState(theme, icon::kKey, "Not a member",
               "An evaluator, and a node that has not registered, is not in the ClusterSpec.");
    return;
  }
  if (ImGui::BeginChild("environment", ImGui::GetContentRegionAvail())) {
    for (const EnvironmentBridge& bridge : bridges) {
      ImGui::PushID(bridge.name.c_str());
      if (IconButton(theme, icon::kCopy, "Copy")) {
        commands->Copy(absl::StrCat(bridge.name, "=", bridge.value));
      }
      ImGui::SameLine();
      Text(theme, bridge.name, theme.accent);
      ImGui::SameLine(150 * context.scale);
      ImGui::PushFont(theme.fonts.mono, kMonoSize);
      WrappedText(absl::string_view(bridge.value).substr(0, kShownJson), theme.text);
      ImGui::PopFont();
      ImGui::PopID();
    }
  }
  ImGui::EndChild();
}

void MembershipPanel::Draw(const ViewContext& context, Commands* commands) {
  const Membership& membership = context.model.membership();
  if (membership.epochs().empty()) {
    EmptyState(context.theme, icon::kClock, "No ClusterSpec yet",
               "It begins with epoch 1, once all nodes have registered. Reservations shows who is "
               "missing.");
    return;
  }
  Refresh(context);
  const ImVec2 room = ImGui::GetContentRegionAvail();
  // Epochs at the left or, where that leaves too little for addresses, above.
  const bool above = room.x < kAbovePx * context.scale;
  const ImVec2 epochs = above ? ImVec2(room.x, room.y * 0.4F)
                              : ImVec2(std::min(kEpochsPx * context.scale, room.x * 0.4F), room.y);
  if (ImGui::BeginChild("left", epochs)) Epochs(context, commands);
  ImGui::EndChild();
  if (!above) ImGui::SameLine(0, 12 * context.scale);
  if (ImGui::BeginChild("right", ImGui::GetContentRegionAvail())) {
    static constexpr const char* kForms[] = {"tree", "JSON", "environment"};
    int form = form_;
    if (Choice(context.theme, "form", kForms, &form)) form_ = form;
    ImGui::Spacing();
    if (form_ == 0) {
      Tree(context, commands);
    } else if (form_ == 1) {
      Json(context, commands);
    } else {
      Environment(context, commands);
    }
  }
  ImGui::EndChild();
}

void MembershipPanel::TakeChoices(const PanelView& other) {
  form_ = static_cast<const MembershipPanel&>(other).form_;
}

}  // namespace millrace::dashboard
