#include "dashboard/views/reservations_panel.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/client/cluster_view.h"
#include "dashboard/model/format.h"
#include "dashboard/views/widgets.h"
#include "imgui.h"

namespace millrace::dashboard {
namespace {

// Up to here a cell has room for its node's name.
constexpr size_t kNamedCells = 64;

constexpr v1::SlotState kBringUp[] = {v1::SLOT_STATE_STARTED, v1::SLOT_STATE_CONNECTED,
                                      v1::SLOT_STATE_REGISTERED, v1::SLOT_STATE_READY,
                                      v1::SLOT_STATE_RUNNING};

absl::Time Reached(const NodeState& node, v1::SlotState state) {
  return node.reached[static_cast<size_t>(state)];
}

// When it reached the last state before `state` that it passed through.
absl::Time ReachedBefore(const NodeState& node, v1::SlotState state) {
  for (int i = static_cast<int>(state) - 1; i > 0; --i) {
    if (node.reached[static_cast<size_t>(i)] != absl::InfinitePast())
      return node.reached[static_cast<size_t>(i)];
  }
  return absl::InfinitePast();
}

// From its request to running, or to now if it is still on its way.
absl::Duration BringUp(const NodeState& node, absl::Time now) {
  const absl::Time begin = Reached(node, v1::SLOT_STATE_REQUESTED);
  if (begin == absl::InfinitePast()) return absl::ZeroDuration();
  const absl::Time running = Reached(node, v1::SLOT_STATE_RUNNING);
  if (running != absl::InfinitePast()) return running - begin;
  return (node.ended() ? node.since() : now) - begin;
}

// The node that is furthest behind of those that are not up yet; -1 if all are up.
int LastOnItsWay(const DashboardModel& model) {
  const NodeState* last = nullptr;
  for (const NodeState& node : model.nodes()) {
    if (node.state >= v1::SLOT_STATE_READY || node.since() == absl::InfinitePast()) continue;
    if (last == nullptr || node.state < last->state ||
        (node.state == last->state && node.since() < last->since())) {
      last = &node;
    }
  }
  return last == nullptr ? -1 : last->executor_id;
}

}  // namespace

void ReservationsPanel::Refresh(const ViewContext& context) {
  const DashboardModel& model = context.model;
  if (version_ == model.slots_version()) return;
  version_ = model.slots_version();
  last_ = LastOnItsWay(model);
  steps_.clear();
  slowest_step_ = -1;
  longest_ = absl::ZeroDuration();
  origin_ = absl::InfiniteFuture();
  for (const NodeState& node : model.nodes()) {
    longest_ = std::max(longest_, BringUp(node, model.now()));
    const absl::Time begin = Reached(node, v1::SLOT_STATE_REQUESTED);
    if (begin != absl::InfinitePast()) origin_ = std::min(origin_, begin);
  }
  for (const v1::SlotState state : kBringUp) {
    std::vector<absl::Duration> took;
    Step step{.state = state};
    for (const NodeState& node : model.nodes()) {
      const absl::Time before = ReachedBefore(node, state);
      if (Reached(node, state) == absl::InfinitePast() || before == absl::InfinitePast()) continue;
      const absl::Duration duration = Reached(node, state) - before;
      took.push_back(duration);
      if (step.slowest < 0 || duration > step.max) {
        step.max = duration;
        step.slowest = node.executor_id;
      }
    }
    step.count = static_cast<int>(took.size());
    if (!took.empty()) {
      const auto at = [&](size_t percent) {
        const size_t place = std::min(took.size() - 1, took.size() * percent / 100);
        std::nth_element(took.begin(), took.begin() + static_cast<ptrdiff_t>(place), took.end());
        return took[place];
      };
      step.p50 = at(50);
      step.p99 = at(99);
      if (slowest_step_ < 0 || step.p99 > steps_[static_cast<size_t>(slowest_step_)].p99)
        slowest_step_ = static_cast<int>(steps_.size());
    }
    steps_.push_back(step);
  }
  order_.resize(model.nodes().size());
  for (size_t i = 0; i < order_.size(); ++i) order_[i] = static_cast<int>(i);
  if (slowest_first_) {
    std::vector<absl::Duration> took(order_.size());
    for (size_t i = 0; i < took.size(); ++i) {
      const NodeState& node = model.nodes()[i];
      took[i] = BringUp(node, model.now());
      // Nodes that are still starting are on top, and first among them the one that holds up the
      // others: the one on the lowest step, and of several there the one that came to it first.
      if (node.state < v1::SLOT_STATE_RUNNING) {
        took[i] =
            absl::Hours(1e6) * (v1::SLOT_STATE_RUNNING - node.state) + (model.now() - node.since());
      }
    }
    std::stable_sort(order_.begin(), order_.end(), [&](int a, int b) {
      return took[static_cast<size_t>(b)] < took[static_cast<size_t>(a)];
    });
  }
}

void ReservationsPanel::Ladder(const ViewContext& context) {
  const Theme& theme = context.theme;
  const ClusterFacts& cluster = context.model.cluster();
  const float px = context.scale;
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(3 * px, 4 * px));
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, ImVec2(5 * px, 3 * px));
  ImGui::PushFont(theme.fonts.text, kSmallSize + 0.5F);
  bool first = true;
  for (int state = 1; state < kSlotStates; ++state) {
    const int count = cluster.by_state[static_cast<size_t>(state)];
    const auto slot_state = static_cast<v1::SlotState>(state);
    // States that no slot is in are only a letter, for the order of the ladder.
    const std::string text = count == 0
                                 ? StateLetter(slot_state)
                                 : absl::StrCat(StateLetter(slot_state), "  ",
                                                SlotStateText(slot_state), " ", FormatCount(count));
    const bool chosen = state_filter_ == state;
    if (!first) {
      ImGui::SameLine();
      if (ImGui::GetContentRegionAvail().x < ImGui::CalcTextSize(text.c_str()).x + 30 * px)
        ImGui::NewLine();
    }
    first = false;
    ImGui::PushID(state);
    ImGui::PushStyleColor(ImGuiCol_Button, chosen      ? Fade(StateColor(theme, slot_state), 0.45F)
                                           : count > 0 ? theme.raised
                                                       : Fade(theme.raised, 0.4F));
    ImGui::PushStyleColor(ImGuiCol_Text, count > 0 ? theme.text : Fade(theme.dim, 0.6F));
    const ImVec2 at = ImGui::GetCursorScreenPos();
    if (ImGui::Button(absl::StrCat("     ", text).c_str())) state_filter_ = chosen ? -1 : state;
    const float height = ImGui::GetItemRectSize().y;
    StateShape(ImGui::GetWindowDrawList(), ImVec2(at.x + 11 * px, at.y + height / 2), 4.5F * px,
               theme, count > 0 ? slot_state : v1::SLOT_STATE_UNSPECIFIED);
    ImGui::PopStyleColor(2);
    Tip(absl::StrCat(SlotStateText(slot_state), ": ", FormatCount(count),
                     ". Click shows these alone"));
    ImGui::PopID();
  }
  ImGui::PopFont();
  ImGui::PopStyleVar(2);
}

CellGrid::Layout ReservationsPanel::GridLayout(const ViewContext& context) const {
  const size_t count = context.model.nodes().size();
  const bool few = count <= kNamedCells;
  return {.count = static_cast<int>(count),
          .selected = context.selection.node,
          .version = context.model.slots_version(),
          .look = static_cast<uint64_t>(state_filter_ + 1),
          .max_cell_px = few ? 46.0F : 24.0F,
          .aspect = few ? 2.6F : 1.0F,
          .label = nullptr};
}

void ReservationsPanel::Grid(const ViewContext& context, float height, Commands* commands) {
  const Theme& theme = context.theme;
  const DashboardModel& model = context.model;
  const bool few = model.nodes().size() <= kNamedCells;
  const CellGrid::Layout layout = GridLayout(context);
  const CellGrid::Result result =
      grid_.Draw(theme, "##slots", ImVec2(ImGui::GetContentRegionAvail().x, height), layout,
                 [&](int i, bool with_text) {
                   const NodeState& node = model.nodes()[static_cast<size_t>(i)];
                   CellGrid::Cell cell;
                   cell.color = StateColor(theme, node.state);
                   cell.hatched = node.state == v1::SLOT_STATE_UNSPECIFIED;
                   cell.dimmed = state_filter_ >= 0 && node.state != state_filter_;
                   cell.marked = node.attempt > 0;
                   if (with_text) cell.text = few ? node.name : StateLetter(node.state);
                   return cell;
                 });
  if (result.hovered >= 0) {
    const NodeState& node = model.nodes()[static_cast<size_t>(result.hovered)];
    if (BeginTip()) {
      StateBadge(theme, node.state, absl::StrCat(node.name, "  ", SlotStateText(node.state)));
      if (node.since() != absl::InfinitePast()) {
        Text(theme, absl::StrCat("for ", FormatSpan(model.now() - node.since())), theme.dim);
      }
      Mono(theme,
           absl::StrCat(node.host.empty() ? "no host yet" : node.host,
                        node.address.empty() ? "" : "  ", node.address,
                        node.attempt > 0 ? absl::StrCat("  attempt ", node.attempt) : ""),
           theme.text);
      if (!node.error.empty()) Text(theme, node.error, theme.bad);
      EndTip();
    }
    if (result.clicked) commands->Select({.node = node.executor_id, .host = node.host_index});
    if (result.double_clicked)
      commands->Go({.panel = Panel::kLogs,
                    .selection = {.node = node.executor_id, .host = node.host_index}});
  }
}

void ReservationsPanel::Waterfall(const ViewContext& context, Commands* commands) {
  const Theme& theme = context.theme;
  const DashboardModel& model = context.model;
  const float px = context.scale;
  const float row = 22 * px;
  const float name_w = 130 * px;
  const float end_w = 86 * px;
  if (!ImGui::BeginChild("waterfall", ImVec2(0, 0))) {
    ImGui::EndChild();
    return;
  }
  const float width = std::max(80.0F, ImGui::GetContentRegionAvail().x - name_w - end_w);
  const double span = std::max(0.001, absl::ToDoubleSeconds(longest_));
  ImGuiListClipper clipper;
  clipper.Begin(static_cast<int>(order_.size()), row);
  while (clipper.Step()) {
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
      const NodeState& node = model.nodes()[static_cast<size_t>(order_[static_cast<size_t>(i)])];
      ImGui::PushID(i);
      const ImVec2 at = ImGui::GetCursorScreenPos();
      ImDrawList* list = ImGui::GetWindowDrawList();
      ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, 0));
      if (ImGui::Selectable("##slot", context.selection.node == node.executor_id, 0,
                            ImVec2(0, row))) {
        commands->Select({.node = node.executor_id, .host = node.host_index});
      }
      ImGui::PopStyleVar();
      if (BeginTip()) {
        Text(theme, absl::StrCat(node.name, " on ", node.host.empty() ? "no host yet" : node.host),
             theme.text);
        for (int state = 1; state < kSlotStates; ++state) {
          const absl::Time reached = node.reached[static_cast<size_t>(state)];
          if (reached == absl::InfinitePast()) continue;
          const absl::Time before = ReachedBefore(node, static_cast<v1::SlotState>(state));
          Mono(theme,
               absl::StrCat(FormatClock(reached, model.options().zone), "  ",
                            SlotStateText(static_cast<v1::SlotState>(state)),
                            before == absl::InfinitePast()
                                ? ""
                                : absl::StrCat("  after ", FormatSpan(reached - before))),
               theme.dim);
        }
        EndTip();
      }
      const float text_y = at.y + (row - ImGui::GetTextLineHeight()) / 2;
      ImGui::PushFont(theme.fonts.mono, kMonoSize);
      list->AddText(ImVec2(at.x + 2, text_y), theme.text, node.name.c_str());
      const absl::Time begin = Reached(node, v1::SLOT_STATE_REQUESTED);
      if (begin != absl::InfinitePast()) {
        const float x0 = at.x + name_w;
        const auto x_of = [&](absl::Time time) {
          return x0 + static_cast<float>(
                          std::clamp(absl::ToDoubleSeconds(time - begin) / span, 0.0, 1.0)) *
                          width;
        };
        absl::Time last = begin;
        v1::SlotState state = v1::SLOT_STATE_REQUESTED;
        for (const v1::SlotState next : kBringUp) {
          const absl::Time reached = Reached(node, next);
          if (reached == absl::InfinitePast()) continue;
          // A span has the colour of the state that the slot was in.
          list->AddRectFilled(ImVec2(x_of(last), at.y + 6 * px),
                              ImVec2(std::max(x_of(reached), x_of(last) + 1), at.y + row - 6 * px),
                              StateColor(theme, state));
          list->AddLine(ImVec2(x_of(reached), at.y + 4 * px),
                        ImVec2(x_of(reached), at.y + row - 4 * px), theme.panel);
          last = reached;
          state = next;
        }
        std::string total;
        if (node.state < v1::SLOT_STATE_RUNNING) {
          const ImVec2 open_min(x_of(last), at.y + 6 * px);
          const ImVec2 open_max(std::max(x_of(model.now()), x_of(last) + 2), at.y + row - 6 * px);
          list->AddRectFilled(open_min, open_max, Fade(StateColor(theme, state), 0.45F));
          Hatch(list, open_min, open_max, StateColor(theme, state));
          total = absl::StrCat(FormatSpan(model.now() - begin), "…");
        } else {
          StateShape(list, ImVec2(x_of(last) + 6 * px, at.y + row / 2), 4 * px, theme, node.state);
          total = FormatSpan(BringUp(node, model.now()));
        }
        const float text_w = ImGui::CalcTextSize(total.c_str()).x;
        list->AddText(ImVec2(x0 + width + end_w - text_w - 4 * px, text_y),
                      node.state < v1::SLOT_STATE_RUNNING ? theme.caution : theme.dim,
                      total.c_str());
      } else {
        list->AddText(ImVec2(at.x + name_w, text_y), theme.dim, "not requested yet");
      }
      ImGui::PopFont();
      ImGui::PopID();
    }
  }
  ImGui::EndChild();
}

std::string ReservationsPanel::Csv(const DashboardModel& model) const {
  CsvTable csv({"executor_id", "node", "host", "state", "attempt", "requested", "started",
                "connected", "registered", "ready", "running", "bring_up_seconds"});
  for (const NodeState& node : model.nodes()) {
    csv.Cell(int64_t{node.executor_id});
    csv.Cell(node.name);
    csv.Cell(node.host);
    csv.Cell(SlotStateText(node.state));
    csv.Cell(int64_t{node.attempt});
    for (int state = v1::SLOT_STATE_REQUESTED; state <= v1::SLOT_STATE_RUNNING; ++state) {
      const absl::Time reached = node.reached[static_cast<size_t>(state)];
      csv.Cell(reached == absl::InfinitePast()
                   ? ""
                   : absl::FormatTime(absl::RFC3339_full, reached, absl::UTCTimeZone()));
    }
    csv.Cell(absl::ToDoubleSeconds(BringUp(node, model.now())));
    csv.EndRow();
  }
  return csv.Take();
}

void ReservationsPanel::Draw(const ViewContext& context, Commands* commands) {
  const Theme& theme = context.theme;
  const DashboardModel& model = context.model;
  if (model.nodes().empty()) {
    EmptyState(theme, icon::kClock, "No slots yet",
               "The driver has not asked for nodes, or this window is not connected to it.");
    return;
  }
  Refresh(context);
  const ClusterFacts& cluster = model.cluster();
  const int up = cluster.by_state[v1::SLOT_STATE_READY] + cluster.by_state[v1::SLOT_STATE_RUNNING];
  ImGui::PushFont(theme.fonts.strong, 20);
  Text(theme, absl::StrCat(FormatCount(up), " of ", FormatCount(cluster.num_slots), " ready"),
       theme.text);
  ImGui::PopFont();
  ImGui::SameLine(0, 16 * context.scale);
  if (last_ >= 0) {
    const NodeState& last = model.nodes()[static_cast<size_t>(last_)];
    ImGui::AlignTextToFramePadding();
    Text(theme,
         absl::StrCat("last: ", last.name, ", ", SlotStateText(last.state), " for ",
                      FormatSpan(model.now() - last.since())),
         theme.caution);
    if (ImGui::IsItemClicked()) commands->Select({.node = last_, .host = last.host_index});
    ImGui::SameLine();
  } else if (slowest_step_ >= 0) {
    const Step& step = steps_[static_cast<size_t>(slowest_step_)];
    ImGui::AlignTextToFramePadding();
    const std::string most =
        absl::StrCat(", longest ", FormatSpan(step.max), " (", model.NodeName(step.slowest), ")");
    const std::string begin = absl::StrCat("slowest step: ", SlotStateText(step.state));
    const std::string all = absl::StrCat(begin, ", median ", FormatSpan(step.p50), ", p99 ",
                                         FormatSpan(step.p99), most);
    const float room = ImGui::GetContentRegionAvail().x - 40 * context.scale;
    Text(theme, ImGui::CalcTextSize(all.c_str()).x <= room ? all : begin + most, theme.dim);
    if (ImGui::IsItemClicked()) commands->Select({.node = step.slowest});
    if (BeginTip()) {
      for (const Step& each : steps_) {
        if (each.count == 0) continue;
        Mono(theme,
             absl::StrCat(SlotStateText(each.state), ": median ", FormatSpan(each.p50), ", p99 ",
                          FormatSpan(each.p99), ", ", each.count, " slots"),
             theme.text);
      }
      EndTip();
    }
    ImGui::SameLine();
  }
  if (IconButton(theme, icon::kDownload, "Export the bring-up as CSV"))
    commands->Export("reservations", Csv(model));
  Ladder(context);
  ImGui::Spacing();
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const float wanted = std::min(room.y * 0.5F, CellGrid::Height(room.x, GridLayout(context)));
  Grid(context, wanted, commands);
  ImGui::Spacing();
  ImGui::AlignTextToFramePadding();
  Heading(theme, "BRING-UP");
  ImGui::SameLine();
  int order = slowest_first_ ? 0 : 1;
  static constexpr const char* kOrders[] = {"slowest first", "by slot"};
  if (Choice(theme, "order", kOrders, &order)) {
    slowest_first_ = order == 0;
    version_ = 0;
    Refresh(context);
  }
  Waterfall(context, commands);
}

void ReservationsPanel::TakeChoices(const PanelView& other) {
  const auto& from = static_cast<const ReservationsPanel&>(other);
  state_filter_ = from.state_filter_;
  if (slowest_first_ != from.slowest_first_) version_ = 0;
  slowest_first_ = from.slowest_first_;
}

}  // namespace millrace::dashboard
