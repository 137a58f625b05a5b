#include "testing/bench/dashboard_viewer.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/proto/time_proto.h"
#include "dashboard/app/fonts.h"
#include "dashboard/app/null_renderer.h"
#include "dashboard/app/panels.h"
#include "dashboard/model/selection.h"
#include "dashboard/source/part_keeper.h"
#include "imgui.h"
#include "imgui_internal.h"
#include "implot.h"

namespace millrace::bench {
namespace {

using dashboard::kPanels;
using dashboard::Panel;
using dashboard::SourceUpdate;

constexpr float kWidth = 2560;
constexpr float kHeight = 1440;
constexpr size_t kMaxQueued = 256;  // as LiveOptions

std::string WindowName(Panel panel) {
  return absl::StrCat(dashboard::PanelTitle(panel), "###", dashboard::PanelName(panel));
}

}  // namespace

absl::Duration ThreadCpuTime() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

void CountingSource::Poll(absl::Time now, size_t max_updates, std::vector<SourceUpdate>* updates) {
  const size_t before = updates->size();
  source_->Poll(now, max_updates, updates);
  for (size_t i = before; i < updates->size(); ++i) {
    const SourceUpdate& update = (*updates)[i];
    traffic_.bytes += update.bytes;
    if (update.watch == nullptr) continue;
    traffic_.samples += static_cast<uint64_t>(update.watch->nodes_size());
    for (const v1::WatchUpdate::Node& node : update.watch->nodes()) {
      traffic_.gpus += static_cast<uint64_t>(node.sample().gpus_size());
      if (node.has_sample()) traffic_.age += now - TimeFromProto(node.sample().time());
    }
    traffic_.metrics += static_cast<uint64_t>(update.watch->metrics_size());
    for (const v1::LogBatch& batch : update.watch->logs()) {
      traffic_.lines += static_cast<uint64_t>(batch.lines_size());
    }
  }
}

ThreadedSource::ThreadedSource(std::unique_ptr<dashboard::UpdateSource> source)
    : source_(std::move(source)), title_(source_->title()) {
  thread_ = Thread("bench-source", [this] { Run(); });
}

ThreadedSource::~ThreadedSource() {
  stopping_ = true;
  {
    MutexLock lock(&mu_);
    taken_.SignalAll();
  }
  thread_.Join();
}

void ThreadedSource::Run() {
  std::vector<SourceUpdate> updates;
  dashboard::PartKeeper keeper;  // as a live source has
  while (!stopping_) {
    updates.clear();
    keeper.Sweep();
    source_->Poll(absl::Now(), 16, &updates);
    if (updates.empty()) {
      absl::SleepFor(absl::Milliseconds(1));
      continue;
    }
    for (const SourceUpdate& update : updates) keeper.Keep(update.watch);
    MutexLock lock(&mu_);
    while (queue_.size() >= kMaxQueued && !stopping_) taken_.Wait(&mu_);
    for (SourceUpdate& update : updates) queue_.push_back(std::move(update));
  }
}

void ThreadedSource::Poll(absl::Time, size_t max_updates, std::vector<SourceUpdate>* updates) {
  MutexLock lock(&mu_);
  for (size_t i = 0; i < max_updates && !queue_.empty(); ++i) {
    updates->push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  taken_.SignalAll();
}

class DashboardViewer::Host : public dashboard::ShellHost {
 public:
  void Copy(const std::string&) override {}
  absl::StatusOr<std::string> Save(const std::string& name, const std::string&) override {
    return name;
  }
  void Quit() override {}
};

DashboardViewer::DashboardViewer(std::unique_ptr<dashboard::UpdateSource> source)
    : host_(std::make_unique<Host>()) {
  ImGui::CreateContext();
  ImPlot::CreateContext();
  ImGuiIO& io = ImGui::GetIO();
  io.IniFilename = nullptr;
  io.DisplaySize = ImVec2(kWidth, kHeight);
  io.ConfigFlags |= ImGuiConfigFlags_DockingEnable | ImGuiConfigFlags_NavEnableKeyboard;
  io.BackendFlags |= ImGuiBackendFlags_RendererHasTextures | ImGuiBackendFlags_RendererHasVtxOffset;
  shell_ = std::make_unique<dashboard::Shell>(
      dashboard::ShellOptions{.fonts = dashboard::LoadFonts(), .select = "worker:1"}, host_.get());
  SetSource(std::move(source));
}

DashboardViewer::~DashboardViewer() {
  for (ImTextureData* texture : ImGui::GetPlatformIO().Textures) {
    texture->SetTexID(ImTextureID_Invalid);
    texture->SetStatus(ImTextureStatus_Destroyed);
  }
  shell_.reset();
  session_.reset();
  ImPlot::DestroyContext();
  ImGui::DestroyContext();
}

void DashboardViewer::SetSource(std::unique_ptr<dashboard::UpdateSource> source) {
  auto counting = std::make_unique<CountingSource>(std::move(source));
  counting_ = counting.get();
  session_ = std::make_unique<dashboard::Session>(std::move(counting));
}

void DashboardViewer::Dock() {
  const ImGuiWindow* host = ImGui::FindWindowByName("###host");
  MILLRACE_CHECK(host != nullptr);
  const ImGuiID dockspace = const_cast<ImGuiWindow*>(host)->GetID("dockspace");
  const ImVec2 size = host->Size;
  ImGui::DockBuilderRemoveNode(dockspace);
  ImGui::DockBuilderAddNode(dockspace, ImGuiDockNodeFlags_DockSpace);
  ImGui::DockBuilderSetNodeSize(dockspace, size);
  constexpr int kColumns[] = {4, 3, 3};
  ImGuiID rest = dockspace;
  size_t next = 0;
  for (int row = 0; row < 3; ++row) {
    ImGuiID line = rest;
    if (row < 2) {
      line = ImGui::DockBuilderSplitNode(rest, ImGuiDir_Up, 1.0F / static_cast<float>(3 - row),
                                         nullptr, &rest);
    }
    for (int column = 0; column < kColumns[row]; ++column) {
      ImGuiID cell = line;
      if (column + 1 < kColumns[row]) {
        cell = ImGui::DockBuilderSplitNode(
            line, ImGuiDir_Left, 1.0F / static_cast<float>(kColumns[row] - column), nullptr, &line);
      }
      ImGui::DockBuilderDockWindow(WindowName(kPanels[next++]).c_str(), cell);
    }
  }
  ImGui::DockBuilderFinish(dockspace);
}

void DashboardViewer::OpenAllPanels(absl::Time now) {
  for (int i = 0; i < 8; ++i) Frame(now);
  dock_ = true;
  for (int i = 0; i < 8; ++i) Frame(now);
  MILLRACE_CHECK(panels_drawn() == static_cast<int>(kPanels.size()))
      << panels_drawn() << " panels are drawn, not all";
}

void DashboardViewer::FocusSearch() {
  ImGuiIO& io = ImGui::GetIO();
  const ImGuiWindow* window = ImGui::FindWindowByName(WindowName(Panel::kLogs).c_str());
  MILLRACE_CHECK(window != nullptr);
  // It is on top, to the left.
  for (float y = 8; y < 96 && !io.WantTextInput; y += 8) {
    mouse_ = {window->Pos.x + 60, window->Pos.y + y};
    for (const bool down : {false, true, false}) {
      io.AddMouseButtonEvent(0, down);
      for (int i = 0; i < 2; ++i) Frame(absl::Now());
    }
  }
  mouse_.reset();
  MILLRACE_CHECK(io.WantTextInput) << "the search of the log lines is not where it was";
}

void DashboardViewer::Type(const std::string& text) {
  ImGuiIO& io = ImGui::GetIO();
  io.AddKeyEvent(ImGuiMod_Ctrl, true);
  io.AddKeyEvent(ImGuiKey_A, true);
  Frame(absl::Now());
  io.AddKeyEvent(ImGuiKey_A, false);
  io.AddKeyEvent(ImGuiMod_Ctrl, false);
  Frame(absl::Now());
  io.AddInputCharactersUTF8(text.c_str());
}

int DashboardViewer::panels_drawn() const {
  return static_cast<int>(std::count_if(kPanels.begin(), kPanels.end(), [](Panel panel) {
    const ImGuiWindow* window = ImGui::FindWindowByName(WindowName(panel).c_str());
    return window != nullptr && window->Active && !window->Hidden && !window->SkipItems;
  }));
}

FrameCost DashboardViewer::Frame(absl::Time now) {
  FrameCost cost;
  ImGuiIO& io = ImGui::GetIO();
  io.DeltaTime = 1.0F / 60;
  // A slow figure over all of the window: something is hovered in most frames.
  const double turn = ++frames_ / 97.0;
  const std::pair<float, float> there = {
      static_cast<float>(kWidth * (0.5 + 0.49 * std::sin(turn))),
      static_cast<float>(kHeight * (0.5 + 0.49 * std::sin(turn * 1.7)))};
  const auto [x, y] = mouse_.value_or(there);
  io.AddMousePosEvent(x, y);
  const absl::Duration begin = ThreadCpuTime();
  session_->Poll(now);
  const absl::Duration polled = ThreadCpuTime();
  ImGui::NewFrame();
  if (std::exchange(dock_, false)) Dock();
  shell_->Draw({session_.get()}, cost.build);
  ImGui::Render();
  const absl::Duration end = ThreadCpuTime();
  dashboard::TakeTextures();
  vertices_ = ImGui::GetDrawData()->TotalVtxCount;
  cost.poll = polled - begin;
  cost.build = end - polled;
  return cost;
}

}  // namespace millrace::bench
