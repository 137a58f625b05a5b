// millrace-dashboard: a running cluster in a window. docs/dashboard.md says what it shows.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/base/version.h"
#include "core/client/cluster_file.h"
#include "dashboard/app/fonts.h"
#include "dashboard/app/host.h"
#include "dashboard/app/options.h"
#include "dashboard/app/png.h"
#include "dashboard/app/session.h"
#include "dashboard/app/shell.h"
#include "dashboard/app/window.h"
#include "dashboard/model/model_json.h"
#include "dashboard/source/demo_source.h"
#include "dashboard/source/live_source.h"
#include "dashboard/source/recording.h"
#include "imgui.h"

namespace millrace::dashboard {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
// Until a live cluster has answered, for a picture or JSON.
constexpr absl::Duration kFirstData = absl::Seconds(15);
// A source that gives more than this host can take is not waited for any longer.
constexpr absl::Duration kCatchUp = absl::Seconds(5);
// A window in which nothing happens is drawn this often, for the ages in it; what comes from the
// cluster wakes it, mostly each second: a little less often than that, so that each is one frame.
constexpr absl::Duration kQuietFrame = absl::Milliseconds(1250);
// Frames that ImGui needs until tables and docks have their sizes.
constexpr int kSettlingFrames = 6;

using Sources = std::vector<std::unique_ptr<UpdateSource>>;

absl::StatusOr<std::unique_ptr<UpdateSource>> OpenLive(LiveOptions live) {
  live.wake = [] { Window::Wake(); };
  return MakeLiveSource(std::move(live));
}

absl::StatusOr<Sources> OpenSources(const Options& options) {
  Sources sources;
  if (options.demo >= 0) {
    DemoOptions demo;
    demo.nodes = options.demo;
    demo.scenario = options.scenario;
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<UpdateSource> source, MakeDemoSource(demo));
    sources.push_back(std::move(source));
  } else if (!options.replay.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<UpdateSource> source, OpenRecording(options.replay));
    sources.push_back(std::move(source));
  } else if (!options.connect.empty()) {
    LiveOptions live;
    live.client.address = options.connect;
    live.client.ca_pem = options.ca_pem;
    live.client.viewer_token = options.token;
    live.client.operator_token = options.operator_token;
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<UpdateSource> source, OpenLive(std::move(live)));
    sources.push_back(std::move(source));
  } else {
    std::vector<std::string> which = options.clusters;
    if (which.empty()) which.emplace_back();
    for (const std::string& each : which) {
      MILLRACE_ASSIGN_OR_RETURN(const ClusterFile cluster, FindClusterFile(each));
      MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<UpdateSource> source,
                                OpenLive(LiveOptionsFrom(cluster)));
      sources.push_back(std::move(source));
    }
  }
  return sources;
}

absl::StatusOr<std::vector<std::unique_ptr<Session>>> OpenSessions(const Options& options) {
  MILLRACE_ASSIGN_OR_RETURN(Sources sources, OpenSources(options));
  std::vector<std::unique_ptr<Session>> sessions;
  for (auto& source : sources) {
    std::unique_ptr<RecordingWriter> writer;
    if (!options.record.empty() && sessions.empty()) {
      MILLRACE_ASSIGN_OR_RETURN(writer, RecordingWriter::Create(options.record));
    }
    sessions.push_back(std::make_unique<Session>(std::move(source), std::move(writer)));
  }
  return sessions;
}

bool Final(const LinkState& link) {
  return link.kind == LinkState::Kind::kRefused || link.kind == LinkState::Kind::kLost;
}

// Polls until the first data are there and `after` of the cluster's time has passed since.
absl::Status WaitForData(Session* session, absl::Duration after) {
  const absl::Time begin = absl::Now();
  if (Playback* playback = session->source().playback();
      playback != nullptr && after > absl::ZeroDuration()) {
    // All of it is there already.
    playback->Seek(playback->position() + after);
    while (session->Poll(begin)) {
    }
    session->Settle();
    return absl::OkStatus();
  }
  absl::Time first = absl::InfiniteFuture();
  for (;;) {
    const absl::Time now = absl::Now();
    const bool any = session->Poll(now);
    const LinkState& link = session->model().health().link;
    if (session->model().has_data() && first == absl::InfiniteFuture()) first = now;
    if (first != absl::InfiniteFuture()) {
      if (now - first >= after + (any ? kCatchUp : absl::ZeroDuration())) {
        session->Settle();
        return absl::OkStatus();
      }
    } else if (Final(link)) {
      return absl::UnavailableError(link.reason);
    } else if (now - begin > kFirstData) {
      return absl::DeadlineExceededError(absl::StrCat(
          "nothing has come from ", session->source().title(), " within ",
          absl::FormatDuration(kFirstData), link.reason.empty() ? "" : ": ", link.reason));
    }
    if (!any) absl::SleepFor(absl::Milliseconds(5));
  }
}

class WindowHost : public ShellHost {
 public:
  explicit WindowHost(Window* window) : window_(window) {}
  void Copy(const std::string& text) override { window_->CopyText(text); }
  absl::StatusOr<std::string> Save(const std::string& name, const std::string& csv) override {
    return SaveCsv(".", name, csv, absl::Now());
  }
  void Quit() override { window_->Close(); }

 private:
  Window* const window_;
};

// The mean of the last frames, so that it can be read.
class FrameClock {
 public:
  void Add(absl::Duration took) { mean_ = mean_ * 0.9 + took * 0.1; }
  [[nodiscard]] absl::Duration mean() const { return mean_; }

 private:
  absl::Duration mean_;
};

ShellOptions MakeShellOptions(const Options& options, const Window& window) {
  return {.theme = options.theme,
          .fonts = LoadFonts(),
          .scale = window.scale(),
          .panel = options.panel,
          .zoomed = options.zoom,
          .select = options.select};
}

absl::Status Screenshot(const Options& options, const std::vector<Session*>& sessions) {
  for (Session* session : sessions)
    MILLRACE_RETURN_IF_ERROR(WaitForData(session, options.after.value_or(absl::ZeroDuration())));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Window> window,
                            Window::Open({.width = options.width,
                                          .height = options.height,
                                          .off_screen = true,
                                          .scale = options.scale}));
  {
    WindowHost host(window.get());
    Shell shell(MakeShellOptions(options, *window), &host);
    for (int i = 0; i < kSettlingFrames; ++i) {
      window->Frame([&] { shell.Draw(sessions, absl::Milliseconds(1)); });
    }
    MILLRACE_ASSIGN_OR_RETURN(const Pixels pixels, window->Read());
    MILLRACE_RETURN_IF_ERROR(WriteFileAtomic(
        options.screenshot, EncodePng(pixels.width, pixels.height, pixels.rgba), 0644));
    window->ShutDownRenderer();
  }
  return absl::OkStatus();
}

absl::Status DumpJson(const Options& options, Session* session) {
  MILLRACE_RETURN_IF_ERROR(WaitForData(session, options.after.value_or(absl::ZeroDuration())));
  std::printf("%s\n", ModelToJson(session->model()).dump(2).c_str());
  return absl::OkStatus();
}

// Says once on the terminal why a link is over: the window says it all the time.
void TellFinal(const Session& session, bool* told) {
  const LinkState& link = session.model().health().link;
  if (*told || !Final(link)) return;
  *told = true;
  std::fprintf(stderr, "millrace-dashboard: %s: %s\n", session.source().title().c_str(),
               link.reason.c_str());
}

absl::Status ShowWindow(const Options& options, const std::vector<Session*>& sessions) {
  MILLRACE_ASSIGN_OR_RETURN(
      const std::unique_ptr<Window> window,
      Window::Open({.title = absl::StrCat("Millrace: ", sessions.front()->source().title()),
                    .width = options.width,
                    .height = options.height,
                    .scale = options.scale}));
  const std::string layout = LayoutPath();
  if (!layout.empty()) ImGui::GetIO().IniFilename = layout.c_str();
  {
    WindowHost host(window.get());
    Shell shell(MakeShellOptions(options, *window), &host);
    FrameClock clock;
    std::vector<char> told(sessions.size(), 0);
    // Frames that follow an input at once: hover effects and scrolling settle within them.
    int lively = kSettlingFrames;
    while (!window->should_close()) {
      const bool behind = std::any_of(sessions.begin(), sessions.end(),
                                      [](Session* each) { return each->behind(); });
      if (window->Wait(lively > 0 || behind ? absl::Milliseconds(4) : kQuietFrame)) {
        lively = kSettlingFrames;
      }
      --lively;
      const absl::Time begin = absl::Now();
      for (size_t i = 0; i < sessions.size(); ++i) {
        sessions[i]->Poll(begin);
        bool said = told[i] != 0;
        TellFinal(*sessions[i], &said);
        told[i] = said ? 1 : 0;
      }
      window->Frame([&] {
        const absl::Time build = absl::Now();
        shell.Draw(sessions, clock.mean());
        clock.Add(absl::Now() - build);
      });
    }
    if (!layout.empty()) ImGui::SaveIniSettingsToDisk(layout.c_str());
    ImGui::GetIO().IniFilename = nullptr;  // ends before ImGui does, as do the settings
    window->ShutDownRenderer();
  }
  return absl::OkStatus();
}

int Main(std::vector<std::string> args) {
  const absl::StatusOr<Options> options = ParseOptions(std::move(args));
  const auto fail = [](const absl::Status& status, int code) {
    std::fprintf(stderr, "millrace-dashboard: %s\n", std::string(status.message()).c_str());
    return code;
  };
  if (!options.ok()) return fail(options.status(), kExitUsage);
  if (options->help) {
    std::fputs(HelpText().c_str(), stdout);
    return 0;
  }
  if (options->version) {
    std::printf("millrace-dashboard %s\n", std::string(kMillraceVersion).c_str());
    return 0;
  }
  const absl::StatusOr<std::vector<std::unique_ptr<Session>>> owned = OpenSessions(*options);
  if (!owned.ok())
    return fail(owned.status(), absl::IsInvalidArgument(owned.status()) ? kExitUsage : kExitFailed);
  std::vector<Session*> sessions;
  for (const auto& session : *owned) sessions.push_back(session.get());
  const absl::Status status = options->dump_json             ? DumpJson(*options, sessions.front())
                              : !options->screenshot.empty() ? Screenshot(*options, sessions)
                                                             : ShowWindow(*options, sessions);
  return status.ok() ? 0 : fail(status, kExitFailed);
}

}  // namespace
}  // namespace millrace::dashboard

int main(int argc, char** argv) {
  // What a person should know of a connection is said by us, in one line.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  return millrace::dashboard::Main({argv + 1, argv + argc});
}
