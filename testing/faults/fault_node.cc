// A node program that does one thing wrong, where and when it is told.
//
//   fault_node --fault=exit_in_feed --on=worker:1
//
// Without a fault it is a well-behaved node: a ps serves Echo; an evaluator waits to be stopped; a
// fed node asks the ps about each training batch (where there is one), then answers inference with
// the rows' ids doubled. It says on stdout what it does, one word a line, so that a test can wait
// for it: started, fed, feed_ended, inferring, stopping.

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/unique_fd.h"
#include "core/process/process.h"
#include "millrace/batch_builder.h"
#include "millrace/cluster_server.h"
#include "millrace/node.h"
#include "millrace/status_macros.h"
#include "testing/faults/fault.grpc.pb.h"

namespace millrace::faults {
namespace {

struct Flags {
  std::string fault;
  std::string on;  // "worker:1"; empty: every fed node
  int64_t batch_rows = 64;
  int64_t pause_ms = 0;
  std::string record;
  int64_t flood_bytes = 0;
};

void Say(const std::string& word) {
  std::printf("%s\n", word.c_str());
  std::fflush(stdout);
}

[[noreturn]] void Exit(int code, const std::string& last_words) {
  std::fprintf(stderr, "%s\n", last_words.c_str());
  ::_exit(code);
}

[[noreturn]] void WaitForever() {
  while (true) ::pause();
}

// "worker:1" from the environment: for what goes wrong before RunNode.
std::string NameFromEnvironment() {
  const absl::StatusOr<Json> context = ParseJson(EnvOr("MILLRACE_CONTEXT", ""));
  if (!context.ok()) return "";
  return absl::StrCat(GetString(*context, "job_name").value_or(""), ":",
                      GetInt(*context, "task_index").value_or(-1));
}

class EchoService : public Echo::Service {
  grpc::Status Say(grpc::ServerContext*, const EchoRequest* request, EchoReply* reply) override {
    reply->set_value(request->value());
    return grpc::Status::OK;
  }
};

// In a session of its own, deaf to what usually ends a process, with the node's stdout and stderr.
void StartStubbornGrandchild() {
  const pid_t pid = ::fork();
  if (pid != 0) {
    Say(absl::StrCat("grandchild ", pid));
    return;
  }
  ::setsid();
  ::signal(SIGHUP, SIG_IGN);
  ::signal(SIGTERM, SIG_IGN);
  WaitForever();
}

void Flood(int64_t bytes) {
  const std::string line(120, '#');
  for (int64_t done = 0; done < bytes; done += static_cast<int64_t>(line.size()) + 1) {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
}

// Lines of any length, and bytes that are no text.
void FloodWithoutLineEnds(int64_t bytes) {
  std::string noise(1 << 16, '\0');
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<char>(i % 10 == 0 ? 1 : i % 251);
  for (char& byte : noise) {
    if (byte == '\n') byte = '#';
  }
  for (int64_t done = 0; done < bytes; done += static_cast<int64_t>(noise.size())) {
    std::fwrite(noise.data(), 1, noise.size(), stderr);
  }
  std::fputc('\n', stderr);
}

class FaultNode {
 public:
  FaultNode(NodeContext& ctx, const Flags& flags) : ctx_(ctx), flags_(flags) {}

  absl::Status Run() {
    WriteEvents();
    ctx_.OnMembershipChange([](uint64_t epoch, const std::vector<MembershipChange>& changes) {
      for (const MembershipChange& change : changes) {
        Say(absl::StrCat("member ", change.job_name, ":", change.task_index, " attempt ",
                         change.attempt, " epoch ", epoch));
      }
    });
    Say("started");
    if (Does("never_reads")) return StayUntilStopped();
    if (Does("error_at_start")) return absl::InvalidArgumentError("no data at /nowhere/rows");
    if (Does("ignores_stop") || Does("ignores_sigterm")) return NeverEnd();
    if (Does("grandchild")) StartStubbornGrandchild();
    if (Does("flood")) Flood(flags_.flood_bytes);
    if (Does("flood_without_lines")) FloodWithoutLineEnds(flags_.flood_bytes);
    if (ctx_.job_name() == "ps") return Serve();
    if (ctx_.job_name() == "evaluator") return StayUntilStopped();
    if (flags_.fault == "barrier") return MeetOthers();
    MILLRACE_RETURN_IF_ERROR(Train());
    return Does("exit0_in_feed") ? absl::OkStatus() : Infer();
  }

 private:
  bool Does(const char* fault) const {
    const bool here = flags_.on.empty() ? ctx_.rank() >= 0 : flags_.on == ctx_.name();
    return here && flags_.fault == fault;
  }

  // As programs do in their log_dir. It may not be writable: that is another test's business.
  void WriteEvents() const {
    WriteFileAtomic(JoinPath(ctx_.log_dir(), absl::StrCat("events-", ctx_.name())), "step 0\n")
        .IgnoreError();
  }

  // The ids of a training batch, where a killed process cannot lose them again.
  absl::Status Record(const Batch& batch) const {
    if (flags_.record.empty()) return absl::OkStatus();
    const std::string path =
        JoinPath(flags_.record, absl::StrCat(ctx_.name(), ".", ctx_.attempt(), ".ids"));
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    const auto ids = batch.column<int64_t>("id");
    const ssize_t size = static_cast<ssize_t>(ids.size() * sizeof(int64_t));
    if (!fd.valid() || ::write(fd.get(), ids.data(), static_cast<size_t>(size)) != size) {
      return absl::ErrnoToStatus(errno, absl::StrCat("recording to ", path));
    }
    return absl::OkStatus();
  }

  absl::Status StayUntilStopped() {
    ctx_.WaitForStop();
    Say("stopping");
    return absl::OkStatus();
  }

  absl::Status NeverEnd() {
    if (Does("ignores_sigterm")) ::signal(SIGTERM, SIG_IGN);
    ctx_.WaitForStop();
    Say("stopping");
    WaitForever();
  }

  absl::Status Serve() {
    EchoService service;
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ClusterServer> server,
                              StartClusterServer(ctx_, {&service}));
    Say("serving");
    return StayUntilStopped();
  }

  // Everybody but `on`, which leaves before.
  absl::Status MeetOthers() {
    if (ctx_.name() == flags_.on) return absl::OkStatus();
    return ctx_.Barrier("meeting", absl::Minutes(5));
  }

  absl::Status AskParameterServer() {
    if (ctx_.cluster_spec().NumTasks("ps").value_or(0) == 0) return absl::OkStatus();
    if (stub_ == nullptr) {
      MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel,
                                ConnectToNode(ctx_, "ps", 0));
      stub_ = Echo::NewStub(channel);
    }
    grpc::ClientContext context;
    context.set_wait_for_ready(!asked_);  // nodes come up together
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(30)));
    asked_ = true;
    EchoReply reply;
    const grpc::Status status = stub_->Say(&context, EchoRequest(), &reply);
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  }

  absl::Status Train() {
    std::unique_ptr<DataFeed> feed = ctx_.GetDataFeed();
    bool fed = false;
    while (!feed->ShouldStop()) {
      MILLRACE_ASSIGN_OR_RETURN(const Batch batch, feed->NextBatch(flags_.batch_rows));
      if (batch.empty()) continue;
      MILLRACE_RETURN_IF_ERROR(AskParameterServer());
      MILLRACE_RETURN_IF_ERROR(Record(batch));
      if (!std::exchange(fed, true)) Say("fed");
      absl::SleepFor(absl::Milliseconds(flags_.pause_ms));
      if (Does("exit_in_feed")) Exit(1, "the disk is full of cheese");
      if (Does("error_in_feed"))
        return absl::InvalidArgumentError("the learning rate is 7, over 1");
      if (Does("exit0_in_feed")) return absl::OkStatus();
      if (Does("stops_reading")) return StayUntilStopped();
      if (Does("terminate")) MILLRACE_RETURN_IF_ERROR(feed->Terminate());
    }
    Say("feed_ended");
    if (Does("exit_after_feed")) Exit(1, "cannot save the model");
    return absl::OkStatus();
  }

  absl::Status Infer() {
    std::unique_ptr<DataFeed> feed = ctx_.GetDataFeed({.train_mode = false});
    bool inferring = false;
    while (!feed->ShouldStop()) {
      MILLRACE_ASSIGN_OR_RETURN(const Batch batch, feed->NextBatch(flags_.batch_rows));
      if (batch.empty()) continue;
      if (!std::exchange(inferring, true)) Say("inferring");
      absl::SleepFor(absl::Milliseconds(flags_.pause_ms));
      if (Does("never_answers")) return StayUntilStopped();
      if (Does("exit0_in_inference")) return absl::OkStatus();
      if (Does("exit_in_inference")) Exit(1, "the model has too many legs");
      MILLRACE_RETURN_IF_ERROR(Answer(*feed, batch));
    }
    return absl::OkStatus();
  }

  absl::Status Answer(DataFeed& feed, const Batch& batch) {
    std::vector<int64_t> doubled;
    for (const int64_t id : batch.column<int64_t>("id")) doubled.push_back(2 * id);
    if (Does("too_few_results")) doubled.pop_back();
    if (Does("too_many_results")) doubled.push_back(-1);
    BatchBuilder builder;
    builder.AddColumn("doubled", std::move(doubled));
    MILLRACE_ASSIGN_OR_RETURN(const RecordBatch results, builder.Build());
    return feed.BatchResults(results);
  }

  NodeContext& ctx_;
  const Flags& flags_;
  std::unique_ptr<Echo::Stub> stub_;
  bool asked_ = false;
};

}  // namespace
}  // namespace millrace::faults

int main(int argc, char** argv) {
  millrace::faults::Flags flags;
  CLI::App app("A node program with faults, for the tests of this folder.");
  app.add_option("--fault", flags.fault, "what goes wrong");
  app.add_option("--on", flags.on, "the node that has the fault; empty: every fed node");
  app.add_option("--batch_rows", flags.batch_rows, "rows that NextBatch asks for");
  app.add_option("--pause_ms", flags.pause_ms, "how long a fed node sleeps after each batch");
  app.add_option("--record", flags.record, "folder for the ids of the rows that were trained with");
  app.add_option("--flood_bytes", flags.flood_bytes, "for the floods");
  CLI11_PARSE(app, argc, argv);
  if (flags.fault == "exit_before_hello" &&
      (flags.on.empty() || flags.on == millrace::faults::NameFromEnvironment())) {
    millrace::faults::Exit(1, "no such flag: --learning_rat");
  }
  return millrace::RunNode(argc, argv, [&flags](millrace::NodeContext& ctx) {
    return millrace::faults::FaultNode(ctx, flags).Run();
  });
}
