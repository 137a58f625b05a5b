// millrace-dashboard: a running cluster in a window. docs/dashboard.md says what it shows.

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/base/version_line.h"
#include "core/client/cluster_file.h"
#include "core/net/grpc_log.h"
#include "core/process/standard_streams.h"
#include "dashboard/app/fonts.h"
#include "dashboard/app/host.h"
#include "dashboard/app/options.h"
#include "dashboard/app/png.h"
#include "dashboard/app/session.h"
#include "dashboard/app/shell.h"
#include "dashboard/app/window.h"
#include "dashboard/model/model_json.h"
#include "dashboard/report/html_report.h"
#include "dashboard/source/cluster_finder.h"
#include "dashboard/source/demo_source.h"
#include "dashboard/source/live_source.h"
#include "dashboard/source/recording.h"
#include "imgui.h"
#include "millrace/status_macros.h"

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
// The most clusters that a window collects; beyond that, the one that ended first is dropped.
constexpr size_t kMaxClusters = 32;

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
  } else if (!options.recordings.empty()) {
    for (const std::string& path : options.recordings) {
      MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<UpdateSource> source, OpenRecording(path));
      sources.push_back(std::move(source));
    }
  } else if (!options.connect.empty()) {
    LiveOptions live;
    live.client.address = options.connect;
    live.client.ca_pem = options.ca_pem;
    live.client.identity_pem = options.identity_pem;
    live.client.viewer_token = options.token;
    live.client.operator_token = options.operator_token;
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<UpdateSource> source, OpenLive(std::move(live)));
    sources.push_back(std::move(source));
  } else {
    for (const std::string& each : options.clusters) {
      MILLRACE_ASSIGN_OR_RETURN(const ClusterFile cluster, FindClusterFile(each));
      MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<UpdateSource> source,
                                OpenLive(LiveOptionsFrom(cluster)));
      sources.push_back(std::move(source));
    }
  }
  return sources;
}

// Without a flag that says what to show: what runs on this host.
bool Follows(const Options& options) {
  return options.demo < 0 && options.recordings.empty() && options.connect.empty() &&
         options.clusters.empty();
}

bool Final(const LinkState& link) {
  return link.kind == LinkState::Kind::kRefused || link.kind == LinkState::Kind::kLost;
}

// All that one window shows.
class Sessions {
 public:
  explicit Sessions(const Options& options) : options_(options) {}

  // The first one is recorded, if that was asked for.
  absl::Status Add(std::unique_ptr<UpdateSource> source) {
    std::unique_ptr<RecordingWriter> writer;
    if (!options_.record.empty() && !std::exchange(recorded_, true)) {
      MILLRACE_ASSIGN_OR_RETURN(writer, RecordingWriter::Create(options_.record));
    }
    Own(std::move(source), std::move(writer));
    return absl::OkStatus();
  }

  // What others are compared with.
  void AddCompared(std::unique_ptr<UpdateSource> source) {
    Own(std::move(source), nullptr);
    compared_ = all_.back()->number();
  }
  // Its Session::number(); 0: there is none.
  [[nodiscard]] uint64_t compared() const { return compared_; }

  void Remove(size_t index) {
    told_.erase(all_[index]);
    all_.erase(all_.begin() + static_cast<ptrdiff_t>(index));
    owned_.erase(owned_.begin() + static_cast<ptrdiff_t>(index));
  }

  [[nodiscard]] const std::vector<Session*>& all() const { return all_; }

  // Says once on the terminal why a link is over: the window says it all the time.
  void TellFinal(const Session& session) {
    const LinkState& link = session.model().health().link;
    if (!Final(link) || !told_.insert(&session).second) return;
    std::fprintf(stderr, "millrace-dashboard: %s: %s\n",
                 EscapeControls(session.source().title()).c_str(),
                 EscapeControls(link.reason).c_str());
  }

 private:
  void Own(std::unique_ptr<UpdateSource> source, std::unique_ptr<RecordingWriter> writer) {
    owned_.push_back(std::make_unique<Session>(std::move(source), std::move(writer)));
    all_.push_back(owned_.back().get());
  }

  const Options& options_;
  bool recorded_ = false;
  uint64_t compared_ = 0;
  std::vector<std::unique_ptr<Session>> owned_;
  std::vector<Session*> all_;
  std::set<const Session*> told_;
};

// Polls until the first data are there and `after` of the cluster's time has passed since.
absl::Status WaitForData(Session* session, absl::Duration after) {
  const Deadline patience(kFirstData);
  if (Playback* playback = session->source().playback();
      playback != nullptr && after > absl::ZeroDuration()) {
    // All of it is there already.
    playback->Seek(playback->position() + after);
    while (session->Poll(absl::Now())) {
    }
    session->Settle();
    return absl::OkStatus();
  }
  std::optional<absl::Duration> first;  // steady
  for (;;) {
    const absl::Duration now = RealClock()->SteadyNow();
    const bool any = session->Poll(absl::Now());
    const LinkState& link = session->model().health().link;
    if (session->model().has_data() && !first.has_value()) first = now;
    if (first.has_value()) {
      if (now - *first >= after + (any ? kCatchUp : absl::ZeroDuration())) {
        session->Settle();
        return absl::OkStatus();
      }
    } else if (Final(link)) {
      return absl::UnavailableError(link.reason);
    } else if (patience.Passed()) {
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

ShellOptions MakeShellOptions(const Options& options, const Window& window,
                              const Sessions& sessions) {
  return {.theme = options.theme,
          .fonts = LoadFonts(),
          .scale = window.scale(),
          .panel = options.panel,
          .zoomed = options.zoom,
          .select = options.select,
          .beside = sessions.compared()};
}

absl::Status Screenshot(const Options& options, const Sessions& all) {
  const std::vector<Session*>& sessions = all.all();
  for (Session* session : sessions)
    MILLRACE_RETURN_IF_ERROR(WaitForData(session, options.after.value_or(absl::ZeroDuration())));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Window> window,
                            Window::Open({.width = options.width,
                                          .height = options.height,
                                          .off_screen = true,
                                          .scale = options.scale}));
  {
    WindowHost host(window.get());
    // Time passes no more, and as much has passed for all.
    const absl::Time now = absl::Now();
    for (Session* session : sessions) session->Poll(now);
    Shell shell(MakeShellOptions(options, *window, all), &host);
    for (int i = 0; i < kSettlingFrames; ++i) {
      window->Frame([&] { shell.Draw(sessions, absl::Milliseconds(1)); });
      // One that was set to the other's place has to play up to it.
      while (std::any_of(sessions.begin(), sessions.end(),
                         [&](Session* each) { return shell.Compares(*each) && each->Poll(now); })) {
      }
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

// Plays all of a recording up to `until`, so that the model has all of its past that it can keep.
void PlayAll(Session* session, Playback* playback, absl::Time until) {
  const absl::Time now = absl::Now();
  playback->Seek(playback->begin());
  session->Poll(now);
  while (session->Poll(now + (until - playback->begin()))) {
  }
  session->Settle();
}

absl::Status WriteReport(const Options& options, Session* session) {
  if (Playback* playback = session->source().playback(); playback != nullptr) {
    PlayAll(session, playback,
            options.after.has_value() ? playback->begin() + *options.after : playback->end());
  } else {
    MILLRACE_RETURN_IF_ERROR(WaitForData(session, options.after.value_or(absl::ZeroDuration())));
  }
  // For this user alone, as recordings are: it has what nodes have written.
  return WriteFileAtomic(options.report,
                         HtmlReport(session->model(), {.source = session->source().title()}), 0600);
}

// Adds the clusters that begin while the window is open. One takes the place of what has ended;
// what lives stays in front.
void AddNew(ClusterFinder* finder, Sessions* sessions, Shell* shell) {
  const absl::Status problem = finder->problem();
  shell->SetTrouble(std::string(problem.message()));
  for (const ClusterFile& cluster : finder->TakeNew()) {
    absl::StatusOr<std::unique_ptr<UpdateSource>> source = OpenLive(LiveOptionsFrom(cluster));
    const absl::Status added = source.ok() ? sessions->Add(*std::move(source)) : source.status();
    if (!added.ok()) {
      shell->Notify(absl::StrCat(cluster.path, ": ", added.message()), Mood::kBad);
      continue;
    }
    const std::vector<Session*>& all = sessions->all();
    const auto over = [](const Session* session) {
      const LinkState& link = session->model().health().link;
      return Final(link) || link.kind == LinkState::Kind::kEnded;
    };
    if (all.size() == 1) continue;
    const auto shown = static_cast<size_t>(std::max(shell->cluster(), 0));
    if (shown < all.size() && over(all[shown])) {
      shell->ShowCluster(static_cast<int>(all.size()) - 1);
    } else {
      shell->Notify(absl::StrCat(all.back()->source().title(), " has begun"), Mood::kGood);
    }
    for (size_t i = 0; all.size() > kMaxClusters && i + 1 < all.size(); ++i) {
      if (!over(all[i]) || static_cast<int>(i) == shell->cluster() || shell->Compares(*all[i]))
        continue;
      sessions->Remove(i);
      if (static_cast<int>(i) < shell->cluster()) shell->ShowCluster(shell->cluster() - 1);
      break;
    }
  }
}

absl::Status ShowWindow(const Options& options, Sessions* sessions) {
  const std::vector<Session*>& all = sessions->all();
  MILLRACE_ASSIGN_OR_RETURN(
      const std::unique_ptr<Window> window,
      Window::Open({.title = all.empty()
                                 ? "Millrace"
                                 : absl::StrCat("Millrace: ", all.front()->source().title()),
                    .width = options.width,
                    .height = options.height,
                    .scale = options.scale}));
  const std::string layout = LayoutPath();
  if (!layout.empty()) ImGui::GetIO().IniFilename = layout.c_str();
  {
    WindowHost host(window.get());
    Shell shell(MakeShellOptions(options, *window, *sessions), &host);
    FrameClock clock;
    std::unique_ptr<ClusterFinder> finder;
    if (Follows(options)) {
      finder =
          std::make_unique<ClusterFinder>(ClusterFinderOptions{.wake = [] { Window::Wake(); }});
    }
    // Frames that follow an input at once: hover effects and scrolling settle within them.
    int lively = kSettlingFrames;
    while (!window->should_close()) {
      const bool behind =
          std::any_of(all.begin(), all.end(), [](Session* each) { return each->behind(); });
      if (window->Wait(lively > 0 || behind ? absl::Milliseconds(4) : kQuietFrame)) {
        lively = kSettlingFrames;
      }
      --lively;
      if (finder != nullptr) AddNew(finder.get(), sessions, &shell);
      const absl::Time begin = absl::Now();
      for (Session* session : all) {
        session->Poll(begin);
        sessions->TellFinal(*session);
      }
      window->Frame([&] {
        const absl::Time build = absl::Now();
        shell.Draw(all, clock.mean());
        clock.Add(absl::Now() - build);
      });
    }
    if (!layout.empty()) ImGui::SaveIniSettingsToDisk(layout.c_str());
    ImGui::GetIO().IniFilename = nullptr;  // ends before ImGui does, as do the settings
    window->ShutDownRenderer();
  }
  return absl::OkStatus();
}

absl::Status Show(const Options& options, Sessions* sessions) {
  const bool headless = options.dump_json || !options.screenshot.empty() || !options.report.empty();
  if (Follows(options) && headless) {
    MILLRACE_ASSIGN_OR_RETURN(const ClusterFile cluster, NewestClusterFile());
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<UpdateSource> source,
                              OpenLive(LiveOptionsFrom(cluster)));
    MILLRACE_RETURN_IF_ERROR(sessions->Add(std::move(source)));
  } else {
    MILLRACE_ASSIGN_OR_RETURN(Sources sources, OpenSources(options));
    for (auto& source : sources) MILLRACE_RETURN_IF_ERROR(sessions->Add(std::move(source)));
  }
  if (!options.compare.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<UpdateSource> source, OpenRecording(options.compare));
    sessions->AddCompared(std::move(source));
  }
  return options.dump_json             ? DumpJson(options, sessions->all().front())
         : !options.report.empty()     ? WriteReport(options, sessions->all().front())
         : !options.screenshot.empty() ? Screenshot(options, *sessions)
                                       : ShowWindow(options, sessions);
}

int Main(std::vector<std::string> args) {
  LogGrpcHere();
  const absl::StatusOr<Options> options = ParseOptions(std::move(args));
  const auto fail = [](const absl::Status& status, int code) {
    std::fprintf(stderr, "millrace-dashboard: %s\n", EscapeControls(status.message()).c_str());
    return code;
  };
  if (!options.ok()) return fail(options.status(), kExitUsage);
  if (options->help) {
    std::fputs(HelpText().c_str(), stdout);
    return 0;
  }
  if (options->version) {
    std::puts(VersionLine("millrace-dashboard", "").c_str());
    return 0;
  }
  Sessions sessions(*options);
  const absl::Status status = Show(*options, &sessions);
  if (status.ok()) return 0;
  return fail(status, absl::IsInvalidArgument(status) ? kExitUsage : kExitFailed);
}

}  // namespace
}  // namespace millrace::dashboard

int main(int argc, char** argv) {
  millrace::OpenStandardStreams();
  // What a person should know of a connection is said by us, in one line.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  return millrace::dashboard::Main({argv + 1, argv + argc});
}
