#include "dashboard/app/shell_testing.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "dashboard/app/fonts.h"
#include "dashboard/app/null_renderer.h"
#include "dashboard/source/demo_source.h"
#include "imgui_internal.h"
#include "implot.h"

namespace millrace::dashboard {
namespace {

// Counts instead of ending the test, and keeps the texts.
std::vector<std::string>* errors = nullptr;
void CountError(ImGuiContext*, void*, const char* text) { errors->emplace_back(text); }

// The demo with an operator.
class OperatedSource : public UpdateSource {
 public:
  OperatedSource(std::unique_ptr<UpdateSource> source, FakeActions* actions)
      : source_(std::move(source)), actions_(actions) {}
  [[nodiscard]] std::string title() const override { return source_->title(); }
  void Poll(absl::Time now, size_t max_updates, std::vector<SourceUpdate>* updates) override {
    source_->Poll(now, max_updates, updates);
  }
  [[nodiscard]] OperatorActions* actions() override { return actions_; }

 private:
  std::unique_ptr<UpdateSource> source_;
  FakeActions* const actions_;
};

}  // namespace

ShellTest::ShellTest() {
  errors = &errors_;
  ImGui::CreateContext();
  ImPlot::CreateContext();
  ImGuiIO& io = ImGui::GetIO();
  io.IniFilename = nullptr;
  io.DisplaySize = ImVec2(1280, 720);
  io.ConfigFlags |= ImGuiConfigFlags_DockingEnable | ImGuiConfigFlags_NavEnableKeyboard;
  io.ConfigWindowsMoveFromTitleBarOnly = true;
  io.ConfigErrorRecoveryEnableAssert = false;
  io.BackendFlags |= ImGuiBackendFlags_RendererHasTextures | ImGuiBackendFlags_RendererHasVtxOffset;
  ImGui::GetCurrentContext()->ErrorCallback = CountError;
  fonts_ = LoadFonts();
}

ShellTest::~ShellTest() {
  for (ImTextureData* texture : ImGui::GetPlatformIO().Textures) {
    texture->SetTexID(ImTextureID_Invalid);
    texture->SetStatus(ImTextureStatus_Destroyed);
  }
  Close();
  ImPlot::DestroyContext();
  ImGui::DestroyContext();
  errors = nullptr;
}

void ShellTest::Close() {
  shell_.reset();
  sessions_.clear();
}

void ShellTest::Open(int nodes, const std::string& scenario, FakeActions* actions,
                     std::string select) {
  DemoOptions options;
  options.nodes = nodes;
  options.scenario = scenario;
  if (nodes > 1000 || scenario == "huge") options.begin_at = absl::Seconds(6);
  auto source = MakeDemoSource(options);
  ASSERT_TRUE(source.ok()) << source.status();
  std::unique_ptr<UpdateSource> taken = std::move(*source);
  if (actions != nullptr) taken = std::make_unique<OperatedSource>(std::move(taken), actions);
  Open(std::move(taken), std::move(select));
}

void ShellTest::Open(std::unique_ptr<UpdateSource> source, std::string select) {
  sessions_.push_back(std::make_unique<Session>(std::move(source)));
  const absl::Time now = absl::Now();
  while (sessions_.back()->Poll(now, absl::Seconds(20))) {
  }
  shell_.reset();
  shell_ = std::make_unique<Shell>(
      ShellOptions{.fonts = fonts_, .scale = scale_, .select = std::move(select)}, &host_);
  Frames(8);
}

void ShellTest::Frame() {
  ImGuiIO& io = ImGui::GetIO();
  io.DeltaTime = 1.0F / 60;
  ImGui::NewFrame();
  std::vector<Session*> sessions;
  for (const auto& session : sessions_) sessions.push_back(session.get());
  shell_->Draw(sessions, absl::Milliseconds(1));
  ImGui::Render();
  TakeTextures();
  if (ImGui::GetCurrentContext()->HoveredIdPreviousFrameItemCount > 1) {
    const ImVec2 at = io.MousePos;
    errors_.push_back(absl::StrCat("two items share an id at ", at.x, ",", at.y, " of ",
                                   PanelName(shell_->front())));
  }
  vertices_ = ImGui::GetDrawData()->TotalVtxCount;
}

void ShellTest::Frames(int count) {
  for (int i = 0; i < count; ++i) Frame();
}

void ShellTest::Press(ImGuiKey key, ImGuiKey modifier) {
  ImGuiIO& io = ImGui::GetIO();
  if (modifier != ImGuiKey_None) io.AddKeyEvent(modifier, true);
  io.AddKeyEvent(key, true);
  Frames(2);
  io.AddKeyEvent(key, false);
  if (modifier != ImGuiKey_None) io.AddKeyEvent(modifier, false);
  Frames(3);
}

void ShellTest::Type(const std::string& text) {
  ImGui::GetIO().AddInputCharactersUTF8(text.c_str());
  Frames(3);
}

void ShellTest::MoveTo(float x, float y) {
  ImGui::GetIO().AddMousePosEvent(x, y);
  Frames(2);
}

void ShellTest::Click(float x, float y, int button) {
  MoveTo(x, y);
  ImGui::GetIO().AddMouseButtonEvent(button, true);
  Frames(2);
  ImGui::GetIO().AddMouseButtonEvent(button, false);
  Frames(3);
}

void ShellTest::Drag(float x0, float y0, float x1, float y1) {
  MoveTo(x0, y0);
  ImGui::GetIO().AddMouseButtonEvent(0, true);
  Frames(2);
  for (int i = 1; i <= 4; ++i)
    MoveTo(x0 + (x1 - x0) * static_cast<float>(i) / 4, y0 + (y1 - y0) * static_cast<float>(i) / 4);
  ImGui::GetIO().AddMouseButtonEvent(0, false);
  Frames(3);
}

void ShellTest::PressIcon(const char* icon, const char* what) {
  std::vector<ImGuiID> windows;
  for (const ImGuiWindow* window : ImGui::GetCurrentContext()->Windows) {
    if (window->Active) windows.push_back(window->ID);
  }
  for (const ImGuiID window : windows) {
    ImGui::ActivateItemByID(ImHashStr(icon, 0, ImHashStr(what, 0, window)));
    Frames(2);
  }
}

ImGuiWindow* ShellTest::Window(Panel panel) {
  return ImGui::FindWindowByName(absl::StrCat(PanelTitle(panel), "###", PanelName(panel)).c_str());
}

}  // namespace millrace::dashboard
