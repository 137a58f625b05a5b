// Two clusters beside each other: the same panel of both, one axis of time, one selection.

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dashboard/app/compare_bar.h"
#include "dashboard/app/comparison.h"
#include "dashboard/app/panels.h"
#include "dashboard/app/shell.h"
#include "imgui.h"
#include "imgui_internal.h"

namespace millrace::dashboard {
namespace {

constexpr ImGuiWindowFlags kFlags = ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoDocking |
                                    ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
                                    ImGuiWindowFlags_NoBringToFrontOnFocus;
constexpr const char* kHalfNames[] = {"###half0", "###half1"};
constexpr const char* kHeadNames[] = {"###head0", "###head1"};

Session* Find(const std::vector<Session*>& sessions, uint64_t number) {
  const auto found = std::find_if(sessions.begin(), sessions.end(),
                                  [&](const Session* each) { return each->number() == number; });
  return found == sessions.end() ? nullptr : *found;
}

int PlaceOf(const std::vector<Session*>& sessions, const Session* session) {
  return static_cast<int>(std::find(sessions.begin(), sessions.end(), session) - sessions.begin());
}

}  // namespace

struct Shell::Compared {
  explicit Compared(absl::Duration span) : comparison(span) {}
  std::array<uint64_t, 2> numbers{};  // of the sessions
  std::array<std::string, 2> titles;
  Panel panel = Panel::kReservations;
  Comparison comparison;
  CompareBar bar;
  std::array<Commands, 2> commands;
  std::array<std::map<std::string, double>, 2> most;  // SharedAxes
  std::array<Selection, 2> selections;                // as they were shared last
  bool select_nothing = false;
  size_t leader = 0;  // whose choices both have
};

Shell::Shell(ShellOptions options, ShellHost* host) : options_(std::move(options)), host_(host) {
  for (const Panel panel : kPanels) panels_[panel] = MakePanel(panel);
  SetTheme(options_.theme.value_or(settings_.theme));
  show_ = options_.panel.value_or(Panel::kReservations);
  if (options_.zoomed) zoomed_ = options_.panel;
}

Shell::~Shell() = default;

void Shell::Show(Panel panel) {
  show_ = panel;
  if (zoomed_.has_value()) zoomed_ = panel;
  if (compared_ != nullptr) compared_->panel = panel;
}

void Shell::ShowCluster(int index) {
  cluster_ = index;
  other_cluster_ = true;
}

bool Shell::Compares(const Session& session) const {
  return compared_ != nullptr &&
         (compared_->numbers[0] == session.number() || compared_->numbers[1] == session.number());
}

// ---- which two ----

void Shell::Compare(Session* first, Session* second) {
  Panel panel = front_;
  if (compared_ != nullptr) {
    panel = compared_->panel;
  } else if (zoomed_.has_value()) {
    panel = *zoomed_;
  } else if (show_.has_value()) {
    panel = *show_;
  } else {
    panel = FocusedPanel().value_or(front_);
  }
  auto compared = std::make_unique<Compared>(first->brush.span);
  compared->numbers = {first->number(), second->number()};
  compared->titles = {first->source().title(), second->source().title()};
  compared->panel = panel;
  if (second_panels_.empty()) {
    for (const Panel each : kPanels) second_panels_[each] = MakePanel(each);
  }
  compared_ = std::move(compared);
}

void Shell::ToggleCompare(const std::vector<Session*>& sessions) {
  if (compared_ != nullptr) {
    LeaveCompare(sessions);
  } else if (sessions.size() == 2) {
    compare_with_ = sessions[cluster_ == 0 ? 1 : 0]->number();
  } else if (sessions.size() > 2) {
    palette_.Open();
    palette_compares_ = true;
  } else {
    Notify("There is one cluster: --compare FILE brings a recording to compare it with",
           Mood::kNeutral);
  }
}

void Shell::LeaveCompare(const std::vector<Session*>& sessions) {
  for (const uint64_t number : compared_->numbers) {
    Session* session = Find(sessions, number);
    if (session == nullptr) continue;
    session->brush = {.live = true, .span = compared_->comparison.brush().span};
    // One that had not begun was waiting.
    if (Playback* playback = session->source().playback();
        playback != nullptr && compared_->comparison.aligned()) {
      playback->SetPaused(compared_->comparison.paused());
    }
  }
  const Panel panel = compared_->panel;
  compared_.reset();
  Show(panel);
  frames_ = 0;
}

Session* Shell::FollowCompared(const std::vector<Session*>& sessions) {
  const auto at = [&](int index) {
    return sessions[static_cast<size_t>(
        std::clamp(index, 0, static_cast<int>(sessions.size()) - 1))];
  };
  if (std::exchange(toggle_compare_, false)) ToggleCompare(sessions);
  if (options_.beside != 0 && sessions.size() > 1) {
    Session* second = Find(sessions, std::exchange(options_.beside, 0));
    if (second != nullptr) {
      Session* first = at(cluster_) != second ? at(cluster_) : at(cluster_ == 0 ? 1 : 0);
      cluster_ = PlaceOf(sessions, first);
      Compare(first, second);
    }
  }
  if (const uint64_t number = std::exchange(compare_with_, 0); number != 0) {
    Session* second = Find(sessions, number);
    if (second != nullptr && second != at(cluster_)) Compare(at(cluster_), second);
  }
  const bool other_asked = std::exchange(other_cluster_, false);
  if (compared_ == nullptr) return nullptr;
  Session* first = Find(sessions, compared_->numbers[0]);
  Session* second = Find(sessions, compared_->numbers[1]);
  if (first == nullptr || second == nullptr) {
    Notify(absl::StrCat(compared_->titles[first == nullptr ? 0 : 1], " is no longer there"),
           Mood::kNeutral);
    if (first == nullptr && second != nullptr) cluster_ = PlaceOf(sessions, second);
    if (first != nullptr) cluster_ = PlaceOf(sessions, first);
    LeaveCompare(sessions);
    return nullptr;
  }
  if (other_asked && at(cluster_) != first) {
    Session* wanted = at(cluster_);
    if (wanted == second) second = first;  // they change places
    Compare(wanted, second);
    return second;
  }
  cluster_ = PlaceOf(sessions, first);
  return second;
}

void Shell::ShowClusterIn(int half, int index) {
  if (half != 1) {
    ShowCluster(index);
    return;
  }
  // Where the first one is asked for, they change places.
  if (index == cluster_) {
    ShowCluster(static_cast<int>(
        std::find(numbers_.begin(), numbers_.end(), compared_->numbers[1]) - numbers_.begin()));
  } else if (static_cast<size_t>(index) < numbers_.size()) {
    compare_with_ = numbers_[static_cast<size_t>(index)];
  }
}

// ---- time and selection ----

void Shell::SetBrush(Session* session, int half, const TimeBrush& brush) {
  if (half >= 0 && compared_ != nullptr) {
    compared_->comparison.SetBrush(static_cast<size_t>(half), brush);
  } else {
    session->brush = brush;
  }
  if (brush.live) KeepSpan(brush.span);
}

void Shell::KeepSpan(absl::Duration span) {
  if (span == settings_.span) return;
  settings_.span = span;
  settings_.Changed();
}

bool Shell::BothLive() const { return compared_->comparison.brush().live; }

void Shell::ShowBothLive() { compared_->comparison.SetLive(true); }

void Shell::CompareTimeKeys() {
  Comparison& comparison = compared_->comparison;
  if (!comparison.aligned()) return;
  const auto pressed = [](ImGuiKey key) { return ImGui::IsKeyPressed(key, /*repeat=*/false); };
  if (pressed(ImGuiKey_Space) && !ImGui::GetIO().NavVisible) {
    if (comparison.scrubbable()) {
      comparison.SetPaused(!comparison.paused());
    } else {
      comparison.SetLive(!comparison.brush().live);
    }
  }
  const int move = (pressed(ImGuiKey_Period) ? 1 : 0) - (pressed(ImGuiKey_Comma) ? 1 : 0);
  const int widen = (pressed(ImGuiKey_Minus) ? 1 : 0) - (pressed(ImGuiKey_Equal) ? 1 : 0);
  if (move != 0 || widen != 0) comparison.Move(move, widen);
}

void Shell::SelectNothing(Session* session) {
  session->selection = Selection();
  if (compared_ != nullptr) compared_->select_nothing = true;
}

// What has been selected in one of them since the last time is selected in the other.
void Shell::ShareSelection(const std::array<Session*, 2>& two, bool first_counts) {
  if (std::exchange(compared_->select_nothing, false)) {
    for (Session* each : two) each->selection = Selection();
    compared_->selections = {};
  }
  for (const size_t i : {0, 1}) {
    if (two[i]->selection == compared_->selections[i] && !(first_counts && i == 0)) continue;
    two[1 - i]->selection = Counterpart(two[i]->selection, two[i]->model(), two[1 - i]->model());
    break;
  }
  compared_->selections = {two[0]->selection, two[1]->selection};
}

// ---- drawing ----

float Shell::DrawCompareBar(const std::array<Session*, 2>& two) {
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  const float scale = Scale();
  const float pad = 5 * scale;
  const float height = CompareBar::Height(compared_->comparison) + 2 * pad;
  ImGui::SetNextWindowPos(viewport->Pos);
  ImGui::SetNextWindowSize(ImVec2(viewport->Size.x, height));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(10 * scale, pad));
  ImGui::PushStyleColor(ImGuiCol_WindowBg, theme_.background);
  CompareActions actions;
  if (ImGui::Begin("###compare", nullptr, kFlags | ImGuiWindowFlags_NoScrollWithMouse)) {
    actions = compared_->bar.Draw(theme_, scale, compared_->panel,
                                  {&two[0]->model(), &two[1]->model()}, &compared_->comparison);
  }
  ImGui::End();
  ImGui::PopStyleColor();
  ImGui::PopStyleVar();
  if (actions.panel.has_value()) Show(*actions.panel);
  if (actions.palette) palette_.Open();
  if (actions.leave) toggle_compare_ = true;
  return height;
}

void Shell::DrawHalves(const std::vector<Session*>& sessions, const std::array<Session*, 2>& two,
                       float top) {
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  const float scale = Scale();
  const float side = 10 * scale;
  const float gap = std::max(1.0F, std::round(2 * scale));
  const Panel panel = compared_->panel;
  // What is one picture over time stands one above the other, so that their times do too.
  const ImVec2 room(viewport->Size.x, std::max(64.0F, viewport->Size.y - top));
  const bool stacked = panel == Panel::kTimeline || room.x < room.y;
  const ImVec2 half(stacked ? room.x : (room.x - gap) / 2, stacked ? (room.y - gap) / 2 : room.y);
  std::array<CompareHead, 2> heads;
  float head_height = 0;
  for (const size_t i : {0, 1}) {
    const LinkHealth& health = two[i]->model().health();
    heads[i] = {.place = i, .title = two[i]->source().title()};
    if (!health.link.reason.empty() && health.link.kind != LinkState::Kind::kLive) {
      heads[i].mood = TroubleMood(health.link);
      heads[i].trouble = absl::StrCat(MoodIcon(heads[i].mood), "  ", health.link.reason);
    }
    head_height = std::max(head_height, CompareHeadHeight(heads[i], half.x - 2 * side));
  }
  head_height += 2 * 3 * scale;
  const std::vector<ClusterEntry> entries = Entries(sessions);
  for (const size_t i : {0, 1}) {
    const DashboardModel& model = two[i]->model();
    const Theme& theme = model.health().stale ? stale_theme_ : theme_;
    const auto place = static_cast<float>(i);
    const ImVec2 at(viewport->Pos.x + (stacked ? 0 : place * (half.x + gap)),
                    viewport->Pos.y + top + (stacked ? place * (half.y + gap) : 0));
    ImGui::SetNextWindowPos(at);
    ImGui::SetNextWindowSize(ImVec2(half.x, head_height));
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(side, 3 * scale));
    ImGui::PushStyleColor(ImGuiCol_WindowBg, theme_.raised);
    if (ImGui::Begin(kHeadNames[i], nullptr, kFlags | ImGuiWindowFlags_NoScrollWithMouse))
      DrawCompareHead(theme_, scale, heads[i], model, compared_->comparison);
    ImGui::End();
    ImGui::PopStyleColor();
    ImGui::PopStyleVar();

    const bool aligned = compared_->comparison.aligned();
    SharedAxes axes{.mine = &compared_->most[i], .theirs = &compared_->most[1 - i]};
    TimeBrush brush = compared_->comparison.brush();
    if (aligned) {
      axes.range = compared_->comparison.RangeOf(i);
      axes.zero = compared_->comparison.ZeroOf(i);
      brush = compared_->comparison.BrushOf(i);
    }
    const ViewContext context{.model = model,
                              .theme = theme,
                              .selection = two[i]->selection,
                              .brush = brush,
                              .scale = scale,
                              .operator_allowed = false,
                              .clusters = entries,
                              .cluster = PlaceOf(sessions, two[i]),
                              .focus_filter = focus_filter_ && i == compared_->leader,
                              .shared = aligned ? &axes : nullptr};
    ImGuiWindowFlags flags = kFlags;
    // As where one panel has the window to itself.
    if (panel == Panel::kVerdict || panel == Panel::kDetails)
      flags &= ~ImGuiWindowFlags_NoScrollbar;
    ImGui::SetNextWindowPos(ImVec2(at.x, at.y + head_height));
    ImGui::SetNextWindowSize(ImVec2(half.x, std::max(32.0F, half.y - head_height)));
    if (ImGui::Begin(kHalfNames[i], nullptr, flags))
      (i == 0 ? panels_ : second_panels_)[panel]->Draw(context, &compared_->commands[i]);
    const ImGuiWindow* focused = ImGui::GetCurrentContext()->NavWindow;
    if (focused != nullptr && focused->RootWindow == ImGui::GetCurrentWindow()->RootWindow)
      compared_->leader = i;
    ImGui::End();
  }
  const std::array<PanelView*, 2> views = {panels_[panel].get(), second_panels_[panel].get()};
  views[1 - compared_->leader]->TakeChoices(*views[compared_->leader]);
}

void Shell::DrawCompared(const std::vector<Session*>& sessions,
                         const std::array<Session*, 2>& two) {
  const bool now_aligned = compared_->comparison.Follow(
      {ComparedCluster{&two[0]->model(), two[0]->source().playback()},
       ComparedCluster{&two[1]->model(), two[1]->source().playback()}});
  ShareSelection(two, now_aligned);
  front_ = compared_->panel;
  const float top = DrawCompareBar(two);
  DrawHalves(sessions, two, top);
  const ViewContext context{.model = two[0]->model(),
                            .theme = theme_,
                            .selection = two[0]->selection,
                            .brush = compared_->comparison.brush(),
                            .scale = Scale(),
                            .operator_allowed = false,
                            .clusters = Entries(sessions),
                            .cluster = cluster_};
  RunPalette(context, two[0]);
  DrawQuestions(two[0]);
  DrawKeys();
  DrawNotices();
  for (const size_t i : {0, 1}) Carry(two[i], &compared_->commands[i], static_cast<int>(i));
  if (const TimeBrush& brush = compared_->comparison.brush(); brush.live) KeepSpan(brush.span);
}

}  // namespace millrace::dashboard
