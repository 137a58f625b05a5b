// Records what the programs of this tree say to each other:
//
//   bazelw run //testing/compatibility:record -- $PWD/testing/compatibility/0.2
//
// README.md says when, and what the files are.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/agent/agent_harness.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/version.h"
#include "core/client/raw_cluster_client.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/fake_agent.h"
#include "core/proto/coordinator.grpc.pb.h"
#include "grpcpp/client_context.h"
#include "millrace/status_macros.h"
#include "testing/compatibility/cluster.h"
#include "testing/compatibility/conversation.h"
#include "testing/compatibility/feed_conversation.h"
#include "testing/compatibility/proto_fields.h"
#include "testing/compatibility/recording_proxy.h"

namespace millrace::compatibility {
namespace {

constexpr absl::Duration kLong = absl::Seconds(30);

absl::Status GetStatus(const Coordinator& coordinator, const RecordingProxy& proxy) {
  const auto stub = v1::Coordinator::NewStub(
      MakeAgentChannel(proxy.address(), proxy.ca_pem(), coordinator.viewer_identity_pem()));
  grpc::ClientContext context;
  context.AddMetadata("authorization", absl::StrCat("Bearer ", coordinator.tokens().viewer));
  v1::ClusterStatus reply;
  const grpc::Status status = stub->GetStatus(&context, {}, &reply);
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

// Everything that an operator and a viewer may do, once.
absl::Status Operate(const Coordinator& coordinator, const RecordingProxy& proxy,
                     RawClusterClient* client) {
  MILLRACE_RETURN_IF_ERROR(client->KvSet("operator", "was here"));
  MILLRACE_RETURN_IF_ERROR(client->KvGet("operator", absl::ZeroDuration()).status());
  MILLRACE_RETURN_IF_ERROR(client->KvAdd("sum", 2).status());
  MILLRACE_RETURN_IF_ERROR(client->KvDelete("operator").status());
  bool more = false;
  MILLRACE_RETURN_IF_ERROR(client->ListKeys("", 2, &more).status());
  MILLRACE_RETURN_IF_ERROR(GetStatus(coordinator, proxy));
  return client->ReadLogs({}, [](const v1::LogBatch&) { return true; });
}

void StartAgent(const Coordinator& coordinator, const std::string& address,
                const std::string& ca_pem, AgentHarness* agent) {
  agent->Start({{"coordinator", Json{{"address", address},
                                     {"ca_pem", ca_pem},
                                     {"identity_pem", coordinator.agent_identity_pem()},
                                     {"token", coordinator.tokens().agent}}},
                {"executor_id", 0},
                {"working_dir", "/"}});
}

absl::Status WaitEnd(AgentHarness* agent) {
  const int code = agent->WaitExit();
  if (code == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("the agent ended with ", code, ": ", agent->stderr_text()));
}

absl::StatusOr<std::vector<RecordedCall>> RecordCalls() {
  // The program is gone when the agent looks for it on this host, so that it is fetched.
  MILLRACE_ASSIGN_OR_RETURN(const TempDir folder, TempDir::Create("record"));
  const std::string program = JoinPath(folder.path(), "node.py");
  MILLRACE_ASSIGN_OR_RETURN(const std::string text,
                            ReadFile(RootFile("testing/compatibility/node.py")));
  MILLRACE_RETURN_IF_ERROR(WriteFileAtomic(program, text));
  MILLRACE_ASSIGN_OR_RETURN(auto coordinator, Coordinator::Start(RecordedClusterOptions(program)));
  std::filesystem::remove(program);
  MILLRACE_ASSIGN_OR_RETURN(auto proxy, RecordingProxy::Start(*coordinator));
  AgentHarness agent;
  StartAgent(*coordinator, proxy->address(), proxy->ca_pem(), &agent);
  MILLRACE_RETURN_IF_ERROR(coordinator->WaitRunning(kLong));
  MILLRACE_ASSIGN_OR_RETURN(
      const auto client,
      RawClusterClient::Connect(ReaderOptions(*coordinator, proxy->address(), proxy->ca_pem())));
  // Waits go past the proxy: how often they ask is no part of a conversation.
  MILLRACE_ASSIGN_OR_RETURN(const auto waits,
                            RawClusterClient::Connect(ReaderOptions(
                                *coordinator, coordinator->address(), coordinator->ca_pem())));
  MILLRACE_ASSIGN_OR_RETURN(
      const auto watch, client->Watch({.interval = absl::Milliseconds(200), .log_lines = 100}, {}));

  MILLRACE_RETURN_IF_ERROR(waits->KvGet("begun", kLong).status());
  MILLRACE_RETURN_IF_ERROR(coordinator->OpenFeed("f1", "input", 1));
  coordinator->FeedEnd("f1", /*aborted=*/false);
  coordinator->EndFeed("input");
  MILLRACE_RETURN_IF_ERROR(waits->KvGet("fed", kLong).status());
  MILLRACE_RETURN_IF_ERROR(Operate(*coordinator, *proxy, client.get()));
  MILLRACE_RETURN_IF_ERROR(client->RestartNode(0, "recorded").status());
  MILLRACE_RETURN_IF_ERROR(waits->KvGet("again", kLong).status());
  MILLRACE_RETURN_IF_ERROR(client->StopCluster("recorded", /*now=*/false));
  MILLRACE_RETURN_IF_ERROR(coordinator->WaitEnded(NodeFilter::kAll, kLong));
  MILLRACE_RETURN_IF_ERROR(WaitEnd(&agent));
  coordinator->Shutdown();
  return proxy->TakeCalls();
}

// What a node by the library and its agent say to each other.
absl::StatusOr<std::string> RecordNodeChannel() {
  MILLRACE_ASSIGN_OR_RETURN(const TempDir folder, TempDir::Create("record"));
  const std::string notes = JoinPath(folder.path(), "notes");
  CoordinatorOptions options = RecordedClusterOptions(RootFile("testing/compatibility/relay.py"));
  options.program.args = {notes, RootFile("testing/compatibility/sdk_node")};
  MILLRACE_ASSIGN_OR_RETURN(auto coordinator, Coordinator::Start(options));
  AgentHarness agent;
  StartAgent(*coordinator, coordinator->address(), coordinator->ca_pem(), &agent);
  MILLRACE_ASSIGN_OR_RETURN(const auto waits,
                            RawClusterClient::Connect(ReaderOptions(
                                *coordinator, coordinator->address(), coordinator->ca_pem())));
  MILLRACE_RETURN_IF_ERROR(waits->KvGet("begun", kLong).status());
  coordinator->EndFeed("input");
  MILLRACE_RETURN_IF_ERROR(waits->KvGet("fed", kLong).status());
  coordinator->Stop(NodeFilter::kAll, "recorded");
  MILLRACE_RETURN_IF_ERROR(coordinator->WaitEnded(NodeFilter::kAll, kLong));
  MILLRACE_RETURN_IF_ERROR(WaitEnd(&agent));
  return ReadFile(notes);
}

// A partition for training, and one for inference.
absl::StatusOr<std::vector<RecordedCall>> RecordFeeds() {
  std::vector<RecordedCall> calls;
  for (const FeedMode mode : {FeedMode::kTrain, FeedMode::kInference}) {
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> feeder, FeederMessages(mode));
    MILLRACE_ASSIGN_OR_RETURN(RecordedCall call, NodeMessages(mode, feeder));
    calls.push_back(std::move(call));
  }
  return calls;
}

// "name receiver", and the frame's parts as hex.
absl::StatusOr<std::string> FramesText() {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text,
                            ReadFile(RootFile("testing/golden/feed_frames.json"), 16 << 20));
  MILLRACE_ASSIGN_OR_RETURN(const Json golden, ParseJson(text));
  std::string lines;
  for (const Json& frame : golden.at("frames")) {
    absl::StrAppend(&lines, frame.at("name").get<std::string>(), " ",
                    frame.at("receiver").get<std::string>());
    for (const Json& part : frame.at("parts")) {
      absl::StrAppend(&lines, " ", part.get<std::string>());
    }
    absl::StrAppend(&lines, "\n");
  }
  return lines;
}

// Those of core/agent/testdata, which its test plays against the agent.
absl::Status CopyTranscripts(const std::string& folder) {
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(RootFile("core/agent/testdata"), error)) {
    if (entry.path().extension() != ".transcript") continue;
    MILLRACE_ASSIGN_OR_RETURN(const std::string text, ReadFile(entry.path().string()));
    MILLRACE_RETURN_IF_ERROR(
        WriteFileAtomic(JoinPath(folder, entry.path().filename().string()), text));
  }
  return error ? absl::InternalError(error.message()) : absl::OkStatus();
}

absl::Status Record(const std::string& folder) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<RecordedCall> calls, RecordCalls());
  const std::string head =
      absl::StrCat("# Of Millrace ", kMillraceVersion, ", by //testing/compatibility:record.\n");
  MILLRACE_RETURN_IF_ERROR(
      WriteFileAtomic(JoinPath(folder, "calls.txt"), head + FormatCalls(calls)));
  MILLRACE_RETURN_IF_ERROR(
      WriteFileAtomic(JoinPath(folder, "messages.txt"), head + ProtoFieldsText()));
  MILLRACE_ASSIGN_OR_RETURN(const std::string channel, RecordNodeChannel());
  MILLRACE_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(folder, "node_channel.txt"), head + channel));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<RecordedCall> feeds, RecordFeeds());
  MILLRACE_RETURN_IF_ERROR(
      WriteFileAtomic(JoinPath(folder, "feed.txt"), head + FormatCalls(feeds)));
  MILLRACE_ASSIGN_OR_RETURN(const std::string frames, FramesText());
  MILLRACE_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(folder, "frames.txt"), head + frames));
  return CopyTranscripts(folder);
}

}  // namespace
}  // namespace millrace::compatibility

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: record FOLDER\n", stderr);
    return 2;
  }
  // Where `bazel run` stands.
  setenv("TEST_SRCDIR", std::filesystem::canonical("..").c_str(), /*overwrite=*/0);
  const absl::Status status = millrace::compatibility::Record(argv[1]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
