#include "dashboard/app/shell.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/client/cluster_view.h"
#include "dashboard/app/panels.h"
#include "dashboard/model/format.h"
#include "dashboard/views/widgets.h"
#include "imgui.h"
#include "imgui_internal.h"

namespace millrace::dashboard {
namespace {

constexpr double kNoticeSeconds = 5;
// The limits of the time span that can be chosen with keys.
constexpr absl::Duration kLeastSpan = absl::Seconds(10);
constexpr absl::Duration kMostSpan = absl::Hours(1);
constexpr absl::Duration kRecordingStep = absl::Seconds(5);
// Nodes that the palette looks through at each key.
constexpr size_t kMaxPaletteNodes = 20'000;

constexpr Panel kTabs[] = {Panel::kReservations, Panel::kNodes, Panel::kGpus,      Panel::kFeed,
                           Panel::kMetrics,      Panel::kLogs,  Panel::kMembership};

bool IsTab(Panel panel) {
  return std::find(std::begin(kTabs), std::end(kTabs), panel) != std::end(kTabs);
}

// ImGui's id is behind the ###: the title may change, the saved layout stays.
std::string WindowName(Panel panel) {
  return absl::StrCat(PanelTitle(panel), "###", PanelName(panel));
}

}  // namespace

Mood Shell::TroubleMood(const LinkState& link) {
  switch (link.kind) {
    case LinkState::Kind::kRefused:
    case LinkState::Kind::kLost:
      return Mood::kBad;
    case LinkState::Kind::kEnded:
      return Mood::kNeutral;
    default:
      return Mood::kWarning;
  }
}

std::optional<Panel> Shell::FocusedPanel() {
  const ImGuiWindow* focused = ImGui::GetCurrentContext()->NavWindow;
  if (focused == nullptr) return std::nullopt;
  for (const Panel panel : kPanels) {
    const ImGuiWindow* window = ImGui::FindWindowByName(WindowName(panel).c_str());
    if (window != nullptr && focused->RootWindow == window->RootWindow) return panel;
  }
  return std::nullopt;
}

void Shell::SetTheme(ThemeKind kind) {
  theme_ = MakeTheme(kind, options_.fonts);
  stale_theme_ = StaleTheme(theme_);
  ApplyTheme(theme_, Scale());
}

void Shell::SetZoom(float zoom) {
  settings_.zoom = std::clamp(zoom, 0.5F, 3.0F);
  settings_.Changed();
  ApplyTheme(theme_, Scale());
}

void Shell::Choose(ThemeKind kind) {
  settings_.theme = kind;
  settings_.Changed();
  SetTheme(kind);
}

void Shell::Notify(std::string text, Mood mood) {
  notices_.push_back({std::move(text), mood, ImGui::GetTime() + kNoticeSeconds});
  if (notices_.size() > 5) notices_.erase(notices_.begin());
}

void Shell::BuildLayout(unsigned dockspace, float width, float height) {
  const float scale = Scale();
  ImGui::DockBuilderRemoveNode(dockspace);
  ImGui::DockBuilderAddNode(dockspace, ImGuiDockNodeFlags_DockSpace);
  ImGui::DockBuilderSetNodeSize(dockspace, ImVec2(width, height));
  ImGuiID center = dockspace;
  const float bottom = std::clamp(height * 0.24F, 130 * scale, 260 * scale);
  const float left = std::clamp(width * 0.19F, 236 * scale, 330 * scale);
  const float right = std::clamp(width * 0.23F, 262 * scale, 400 * scale);
  const ImGuiID timeline =
      ImGui::DockBuilderSplitNode(center, ImGuiDir_Down, bottom / height, nullptr, &center);
  const ImGuiID verdict =
      ImGui::DockBuilderSplitNode(center, ImGuiDir_Left, left / width, nullptr, &center);
  const ImGuiID details =
      ImGui::DockBuilderSplitNode(center, ImGuiDir_Right, right / (width - left), nullptr, &center);
  for (const ImGuiID id : {timeline, verdict, details}) {
    ImGui::DockBuilderGetNode(id)->SetLocalFlags(ImGui::DockBuilderGetNode(id)->LocalFlags |
                                                 ImGuiDockNodeFlags_NoTabBar);
  }
  ImGuiDockNode* middle = ImGui::DockBuilderGetNode(center);
  middle->SetLocalFlags(middle->LocalFlags | ImGuiDockNodeFlags_NoWindowMenuButton |
                        ImGuiDockNodeFlags_NoCloseButton);
  ImGui::DockBuilderDockWindow(WindowName(Panel::kTimeline).c_str(), timeline);
  ImGui::DockBuilderDockWindow(WindowName(Panel::kVerdict).c_str(), verdict);
  ImGui::DockBuilderDockWindow(WindowName(Panel::kDetails).c_str(), details);
  for (const Panel panel : kTabs) ImGui::DockBuilderDockWindow(WindowName(panel).c_str(), center);
  ImGui::DockBuilderFinish(dockspace);
}

float Shell::DrawStatus(const ViewContext& context, Session* session, absl::Duration frame) {
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  Playback* playback = session->source().playback();
  const LinkHealth& health = session->model().health();
  const bool banner = !health.link.reason.empty() && health.link.kind != LinkState::Kind::kLive;
  const float row = ImGui::GetFrameHeight();
  const float pad = 5 * context.scale;
  float height = row + pad * 2;
  if (playback != nullptr) height += row + ImGui::GetStyle().ItemSpacing.y;
  const float side = 10 * context.scale;
  const std::string trouble =
      banner ? absl::StrCat(MoodIcon(TroubleMood(health.link)), "  ", health.link.reason) : "";
  if (banner) {
    const float room = viewport->Size.x - 2 * side;
    height += ImGui::CalcTextSize(trouble.c_str(), nullptr, false, room).y +
              ImGui::GetStyle().ItemSpacing.y;
  }
  ImGui::SetNextWindowPos(viewport->Pos);
  ImGui::SetNextWindowSize(ImVec2(viewport->Size.x, height));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(side, pad));
  ImGui::PushStyleColor(ImGuiCol_WindowBg, theme_.background);
  constexpr ImGuiWindowFlags kFlags = ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoDocking |
                                      ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
                                      ImGuiWindowFlags_NoBringToFrontOnFocus |
                                      ImGuiWindowFlags_NoScrollWithMouse;
  if (ImGui::Begin("###status", nullptr, kFlags)) {
    StatusFacts facts{
        .title = session->source().title(), .frame = frame, .recording = session->recording()};
    if (playback != nullptr) {
      facts.replay = true;
      facts.paused = playback->paused();
      facts.speed = playback->speed();
      facts.begin = playback->begin();
      facts.end = playback->end();
      facts.position = playback->position();
    }
    const StatusActions actions = status_bar_.Draw(context, facts, &commands_);
    if (actions.palette) palette_.Open();
    if (playback != nullptr) {
      if (actions.toggle_pause) playback->SetPaused(!playback->paused());
      if (actions.speed > 0) playback->SetSpeed(actions.speed);
      if (actions.seek) playback->Seek(actions.position);
    }
    if (banner) {
      WrappedText(trouble, MoodColor(theme_, TroubleMood(health.link)));
    }
  }
  ImGui::End();
  ImGui::PopStyleColor();
  ImGui::PopStyleVar();
  return height;
}

void Shell::DrawPanel(const ViewContext& context, Panel panel) {
  ImGuiWindowFlags flags = ImGuiWindowFlags_NoCollapse;
  if (panel != Panel::kVerdict && panel != Panel::kDetails)
    flags |= ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse;
  const std::string name = WindowName(panel);
  if (show_ == panel) ImGui::SetNextWindowFocus();
  if (ImGui::Begin(name.c_str(), nullptr, flags)) {
    if (IsTab(panel)) front_ = panel;
    panels_[panel]->Draw(context, &commands_);
  }
  ImGui::End();
}

void Shell::DrawQuestions(Session* session) {
  const auto begin = [&](const char* name) {
    const ImGuiViewport* viewport = ImGui::GetMainViewport();
    ImGui::SetNextWindowPos(viewport->GetCenter(), ImGuiCond_Always, ImVec2(0.5F, 0.5F));
    ImGui::SetNextWindowSize(ImVec2(440 * Scale(), 0));
    return ImGui::BeginPopupModal(name, nullptr,
                                  ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoMove |
                                      ImGuiWindowFlags_NoSavedSettings |
                                      ImGuiWindowFlags_NoDocking);
  };
  enum class Answer { kNone, kYes, kNo };
  const auto answer = [&](const char* yes, const char* no) {
    ImGui::Spacing();
    ImGui::PushStyleColor(ImGuiCol_Button, Fade(theme_.bad, 0.5F));
    const bool confirmed = ImGui::Button(yes);
    ImGui::PopStyleColor();
    ImGui::SameLine();
    const bool cancelled = ImGui::Button(no) || ImGui::IsKeyPressed(ImGuiKey_Escape);
    ImGui::SetItemDefaultFocus();
    if (confirmed || cancelled) ImGui::CloseCurrentPopup();
    return confirmed ? Answer::kYes : cancelled ? Answer::kNo : Answer::kNone;
  };
  OperatorActions* actions = session->source().actions();
  if (ask_restart_ >= 0 && !ImGui::IsPopupOpen("restart")) ImGui::OpenPopup("restart");
  if (begin("restart")) {
    const std::string name = session->model().NodeName(ask_restart_);
    WrappedText(absl::StrCat("Restart ", name, " of ", session->source().title(), "?"),
                theme_.text);
    WrappedText(
        "Its program is ended and started again as a new attempt; what it was fed and has not "
        "acknowledged is fed again.",
        theme_.dim);
    const Answer said = answer("Restart it", "Leave it as it is");
    if (said == Answer::kYes && actions != nullptr) actions->RestartNode(ask_restart_, name);
    if (said != Answer::kNone) ask_restart_ = -1;
    ImGui::EndPopup();
  } else {
    ask_restart_ = -1;
  }
  if (ask_stop_ && !ImGui::IsPopupOpen("stop")) ImGui::OpenPopup("stop");
  if (begin("stop")) {
    WrappedText(absl::StrCat("Stop ", session->source().title(), ": all ",
                             FormatCount(session->model().cluster().num_slots), " nodes?"),
                theme_.text);
    WrappedText(
        "Nodes are asked to end and killed if they do not; the driver's run ends as cancelled. "
        "This cannot be taken back.",
        theme_.dim);
    const Answer said = answer("Stop the cluster", "Let it run");
    if (said == Answer::kYes && actions != nullptr) actions->StopCluster(/*now=*/false);
    if (said != Answer::kNone) ask_stop_ = false;
    ImGui::EndPopup();
  } else {
    ask_stop_ = false;
  }
  if (actions == nullptr) return;
  for (const ActionResult& result : actions->TakeResults()) {
    Notify(result.status.ok() ? absl::StrCat(result.what, ": done")
                              : absl::StrCat(result.what, ": ", result.status.message()),
           result.status.ok() ? Mood::kGood : Mood::kBad);
  }
}

void Shell::DrawNotices() {
  std::erase_if(notices_, [](const Notice& notice) { return ImGui::GetTime() > notice.until; });
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  const float scale = Scale();
  float y = viewport->Pos.y + viewport->Size.y - 16 * scale;
  for (size_t i = notices_.size(); i-- > 0;) {
    const Notice& notice = notices_[i];
    ImGui::SetNextWindowPos(ImVec2(viewport->Pos.x + viewport->Size.x - 16 * scale, y),
                            ImGuiCond_Always, ImVec2(1, 1));
    constexpr ImGuiWindowFlags kFlags =
        ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoDocking |
        ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoInputs |
        ImGuiWindowFlags_AlwaysAutoResize | ImGuiWindowFlags_NoFocusOnAppearing |
        ImGuiWindowFlags_NoNav;
    ImGui::PushStyleColor(ImGuiCol_WindowBg, theme_.raised);
    ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1);
    if (ImGui::Begin(absl::StrCat("###notice", i).c_str(), nullptr, kFlags)) {
      Text(theme_, MoodIcon(notice.mood), MoodColor(theme_, notice.mood));
      ImGui::SameLine();
      Text(theme_, notice.text, theme_.text);
    }
    y -= ImGui::GetWindowHeight() + 6 * scale;
    ImGui::End();
    ImGui::PopStyleVar();
    ImGui::PopStyleColor();
  }
}

void Shell::MoveTime(Session* session, int move, int widen) {
  TimeBrush& brush = session->brush;
  if (Playback* playback = session->source().playback();
      playback != nullptr && move != 0 && brush.live) {
    playback->Seek(std::clamp(playback->position() + move * kRecordingStep, playback->begin(),
                              playback->end()));
  } else if (brush.live && widen != 0) {
    brush.span = std::clamp(widen > 0 ? brush.span * 2 : brush.span / 2, kLeastSpan, kMostSpan);
    settings_.span = brush.span;
    settings_.Changed();
  } else {
    const absl::Time now = session->model().now();
    if (brush.live) {
      brush.to = now;
      brush.from = now - brush.span;
      brush.live = false;
    }
    const absl::Duration span = std::clamp((brush.to - brush.from) * (widen > 0   ? 2.0
                                                                      : widen < 0 ? 0.5
                                                                                  : 1.0),
                                           kLeastSpan, kMostSpan);
    brush.to = std::min(brush.to + move * span / 4, now);
    brush.from = brush.to - span;
  }
}

void Shell::ShowLive(Session* session) {
  session->brush.live = true;
  if (compared_ != nullptr) ShowBothLive();
}

void Shell::TimeKeys(Session* session) {
  if (compared_ != nullptr) {
    CompareTimeKeys();
    return;
  }
  const auto pressed = [](ImGuiKey key) { return ImGui::IsKeyPressed(key, /*repeat=*/false); };
  if (pressed(ImGuiKey_Space) && !ImGui::GetIO().NavVisible) {
    Playback* playback = session->source().playback();
    if (playback != nullptr) {
      playback->SetPaused(!playback->paused());
    } else {
      TimeBrush& brush = session->brush;
      brush.live = !brush.live;
      brush.to = session->model().now();
      brush.from = brush.to - brush.span;
    }
  }
  const int move = (pressed(ImGuiKey_Period) ? 1 : 0) - (pressed(ImGuiKey_Comma) ? 1 : 0);
  const int widen = (pressed(ImGuiKey_Minus) ? 1 : 0) - (pressed(ImGuiKey_Equal) ? 1 : 0);
  if (move != 0 || widen != 0) MoveTime(session, move, widen);
}

void Shell::Keys(Session* session) {
  const ImGuiIO& io = ImGui::GetIO();
  focus_filter_ = false;
  const auto pressed = [](ImGuiKey key) { return ImGui::IsKeyPressed(key, /*repeat=*/false); };
  if (io.KeyCtrl) {
    if (pressed(ImGuiKey_P) && session != nullptr) palette_.Open();
    if (pressed(ImGuiKey_Q)) host_->Quit();
    if (pressed(ImGuiKey_Equal) || pressed(ImGuiKey_KeypadAdd)) SetZoom(settings_.zoom * 1.1F);
    if (pressed(ImGuiKey_Minus) || pressed(ImGuiKey_KeypadSubtract)) SetZoom(settings_.zoom / 1.1F);
    if (pressed(ImGuiKey_0)) SetZoom(1);
    return;
  }
  if (pressed(ImGuiKey_F1)) show_keys_ = !show_keys_;
  if (io.WantTextInput || palette_.open() || ImGui::IsPopupOpen(nullptr, ImGuiPopupFlags_AnyPopup))
    return;
  if (pressed(ImGuiKey_T))
    Choose(theme_.kind == ThemeKind::kDark    ? ThemeKind::kLight
           : theme_.kind == ThemeKind::kLight ? ThemeKind::kColorBlind
                                              : ThemeKind::kDark);
  if (session == nullptr) {
    if (pressed(ImGuiKey_Escape)) show_keys_ = false;
    return;
  }
  for (const Panel panel : kPanels) {
    const char key = PanelKey(panel);
    if (pressed(static_cast<ImGuiKey>(ImGuiKey_0 + (key - '0')))) Show(panel);
  }
  if (pressed(ImGuiKey_Slash)) focus_filter_ = true;
  if (pressed(ImGuiKey_C)) toggle_compare_ = true;
  if (pressed(ImGuiKey_Z) && compared_ == nullptr) {
    if (zoomed_.has_value()) {
      show_ = zoomed_;
      zoomed_.reset();
    } else {
      zoomed_ = FocusedPanel().value_or(front_);
    }
  }
  if (pressed(ImGuiKey_Escape) && std::exchange(show_keys_, false)) return;
  TimeKeys(session);
  if (!pressed(ImGuiKey_Escape)) return;
  const bool live = compared_ != nullptr ? BothLive() : session->brush.live;
  if (live) {
    SelectNothing(session);
  } else {
    ShowLive(session);
  }
}

void Shell::RunPalette(const ViewContext& context, Session* session) {
  if (!palette_.open()) palette_compares_ = false;
  palette_.Draw(theme_, context.scale, [&](const std::string& query) {
    std::vector<PaletteItem> items;
    const auto add_others = [&] {
      for (const ClusterEntry& cluster : context.clusters) {
        const uint64_t number = cluster.number;
        if (number == session->number()) continue;
        items.push_back({absl::StrCat("Compare with ", cluster.title), "C",
                         [this, number] { compare_with_ = number; }});
      }
    };
    if (palette_compares_) {
      add_others();
      return items;
    }
    for (const Panel panel : kPanels) {
      items.push_back({PanelTitle(panel), absl::StrCat("panel  ", std::string(1, PanelKey(panel))),
                       [this, panel] { Show(panel); }});
    }
    for (const ThemeKind kind : {ThemeKind::kDark, ThemeKind::kLight, ThemeKind::kColorBlind}) {
      items.push_back(
          {absl::StrCat("Theme: ", ThemeName(kind)), "T", [this, kind] { Choose(kind); }});
    }
    items.push_back({"Live view", "Esc", [this, session] { ShowLive(session); }});
    items.push_back({"Keys", "F1", [this] { show_keys_ = true; }});
    items.push_back({"Layout as it was at first", "", [this] { layout_built_ = false; }});
    items.push_back({"End", "Ctrl+Q", [this] { host_->Quit(); }});
    for (size_t i = 0; i < context.clusters.size(); ++i) {
      items.push_back({absl::StrCat("Cluster ", context.clusters[i].title), "cluster",
                       [this, i] { ShowCluster(static_cast<int>(i)); }});
    }
    add_others();
    if (compared_ != nullptr)
      items.push_back({"One cluster alone", "C", [this] { toggle_compare_ = true; }});
    const DashboardModel& model = session->model();
    if (context.operator_allowed) {
      items.push_back({"Stop the cluster…", "operator", [this] { ask_stop_ = true; }});
      const int node = session->selection.node;
      if (node >= 0)
        items.push_back({absl::StrCat("Restart ", model.NodeName(node), "…"), "operator",
                         [this, node] { ask_restart_ = node; }});
    }
    if (query.empty()) return items;
    for (size_t i = 0; i < model.nodes().size() && i < kMaxPaletteNodes; ++i) {
      const NodeState& node = model.nodes()[i];
      if (FuzzyScore(query, node.name) < 0) continue;
      const int id = node.executor_id;
      const int host = node.host_index;
      items.push_back({node.name, absl::StrCat(node.host, "  ", SlotStateText(node.state)),
                       [this, session, id, host] {
                         session->selection = {.node = id, .host = host};
                         Show(Panel::kDetails);
                       }});
    }
    return items;
  });
}

void Shell::Carry(Session* session, Commands* commands, int half) {
  struct Visitor {
    Shell* shell;
    Session* session;
    int half;
    void operator()(const Jump& jump) const {
      shell->Show(jump.panel);
      if (jump.selection != Selection()) session->selection = jump.selection;
      if (jump.at != absl::InfinitePast()) {
        shell->SetBrush(session, half,
                        {.live = false,
                         .span = session->brush.span,
                         .from = jump.at - absl::Seconds(45),
                         .to = jump.at + absl::Seconds(15)});
      }
    }
    void operator()(const SelectCommand& command) const { session->selection = command.selection; }
    void operator()(const BrushCommand& command) const {
      shell->SetBrush(session, half, command.brush);
    }
    void operator()(const CopyCommand& command) const {
      shell->host_->Copy(command.text);
      shell->Notify("Copied", Mood::kGood);
    }
    void operator()(const ExportCommand& command) const {
      const absl::StatusOr<std::string> path = shell->host_->Save(command.name, command.csv);
      shell->Notify(
          path.ok() ? absl::StrCat("Saved ", *path) : std::string(path.status().message()),
          path.ok() ? Mood::kGood : Mood::kBad);
    }
    void operator()(const RestartNodeCommand& command) const {
      shell->ask_restart_ = command.executor_id;
    }
    void operator()(const StopClusterCommand&) const { shell->ask_stop_ = true; }
    void operator()(const ShowClusterCommand& command) const {
      shell->ShowClusterIn(half, command.index);
    }
  };
  for (const Command& command : commands->all()) std::visit(Visitor{this, session, half}, command);
  commands->Clear();
}

std::vector<ClusterEntry> Shell::Entries(const std::vector<Session*>& sessions) {
  std::vector<ClusterEntry> entries;
  if (sessions.size() < 2) return entries;
  for (const Session* each : sessions) {
    const ClusterFacts& facts = each->model().cluster();
    const Verdict& verdict = each->model().verdict();
    entries.push_back({each->source().title(),
                       std::max({verdict.start.mood, verdict.gpus.mood, verdict.failure.mood}),
                       absl::StrCat(PhaseText(facts.phase), " ",
                                    facts.by_state[v1::SLOT_STATE_RUNNING], "/", facts.num_slots),
                       each->number()});
  }
  return entries;
}

void Shell::Draw(const std::vector<Session*>& sessions, absl::Duration frame) {
  if (sessions.empty()) {
    if (settings_.TakeLoaded()) SetTheme(options_.theme.value_or(settings_.theme));
    ++welcomes_;
    Keys(nullptr);
    DrawWelcome();
    DrawKeys();
    DrawNotices();
    return;
  }
  numbers_.clear();
  for (const Session* each : sessions) numbers_.push_back(each->number());
  Session* other = FollowCompared(sessions);
  cluster_ = std::clamp(cluster_, 0, static_cast<int>(sessions.size()) - 1);
  Session* session = sessions[static_cast<size_t>(cluster_)];
  if (settings_.TakeLoaded()) {
    for (Session* each : sessions) each->brush.span = settings_.span;
    SetTheme(options_.theme.value_or(settings_.theme));
  }
  if (!options_.select.empty()) {
    const int node = session->model().FindNode(options_.select);
    if (node >= 0) {
      session->selection = {.node = node,
                            .host = session->model().nodes()[static_cast<size_t>(node)].host_index};
      options_.select.clear();
    }
  }
  if (const absl::Status status = session->TakeRecordingError(); !status.ok())
    Notify(std::string(status.message()), Mood::kBad);
  Keys(session);
  if (other != nullptr) {
    DrawCompared(sessions, {session, other});
    return;
  }
  ViewContext context{.model = session->model(),
                      .theme = session->model().health().stale ? stale_theme_ : theme_,
                      .selection = session->selection,
                      .brush = session->brush,
                      .scale = Scale(),
                      .operator_allowed = session->operator_allowed(),
                      .clusters = Entries(sessions),
                      .cluster = cluster_,
                      .focus_filter = false};
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  const float top = DrawStatus(context, session, frame);
  const ImVec2 room(viewport->Size.x, std::max(64.0F, viewport->Size.y - top));
  ImGui::SetNextWindowPos(ImVec2(viewport->Pos.x, viewport->Pos.y + top));
  ImGui::SetNextWindowSize(room);
  constexpr ImGuiWindowFlags kHost = ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoDocking |
                                     ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
                                     ImGuiWindowFlags_NoBringToFrontOnFocus |
                                     ImGuiWindowFlags_NoNavFocus;
  if (zoomed_.has_value()) {
    const Panel panel = *zoomed_;
    ImGui::SetNextWindowDockID(0, ImGuiCond_Always);
    // These two panels scroll if they are too long; the others fit themselves in.
    ImGuiWindowFlags flags = kHost & ~ImGuiWindowFlags_NoNavFocus;
    if (panel == Panel::kVerdict || panel == Panel::kDetails)
      flags &= ~ImGuiWindowFlags_NoScrollbar;
    if (ImGui::Begin("###zoomed", nullptr, flags)) {
      context.focus_filter = focus_filter_;
      panels_[panel]->Draw(context, &commands_);
      front_ = panel;
    }
    ImGui::End();
  } else {
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(0, 0));
    // What the panels leave is cleared in this colour already (window.cc): where the processor
    // fills the pixels, another layer of them is a fifth of a quiet window's time.
    ImGui::Begin("###host", nullptr, kHost | ImGuiWindowFlags_NoBackground);
    ImGui::PopStyleVar();
    const ImGuiID dockspace = ImGui::GetID("dockspace");
    if (!std::exchange(layout_built_, true) && (ImGui::DockBuilderGetNode(dockspace) == nullptr ||
                                                ImGui::GetFrameCount() > welcomes_ + 1)) {
      BuildLayout(dockspace, room.x, room.y);
    }
    ImGui::DockSpace(dockspace, ImVec2(0, 0), ImGuiDockNodeFlags_NoWindowMenuButton);
    ImGui::End();
    for (const Panel panel : kPanels) {
      context.focus_filter = focus_filter_ && panel == front_;
      DrawPanel(context, panel);
    }
  }
  // Windows have their places in the layout only after a few frames.
  if (++frames_ > 3) show_.reset();
  RunPalette(context, session);
  DrawQuestions(session);
  DrawKeys();
  DrawNotices();
  Carry(session, &commands_, -1);
}

}  // namespace millrace::dashboard
