// File: core/agent/fake_coordinator.h
//
// A coordinator for one agent that does what a test tells it, wrong things included. Test only.
//
//   FakeCoordinator coordinator({.program = "/bin/true"});
//   start["coordinator"] = coordinator.StartParams();
//   ASSERT_TRUE(coordinator.WaitForState(v1::NODE_STATE_RUNNING));
//   coordinator.Send(stop);

#ifndef CORE_AGENT_FAKE_COORDINATOR_H_
#define CORE_AGENT_FAKE_COORDINATOR_H_

#include <grpcpp/server.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/base/mutex.h"
#include "core/proto/coordinator.grpc.pb.h"
#include "core/proto/coordinator.pb.h"
#include "millrace/cluster_spec.h"

namespace millrace {

// Thread safety: thread-safe. Blocking: the Wait methods, for at most 40 s.
class FakeCoordinator final : private v1::Coordinator::Service {
 public:
  struct Options {
    v1::Registered registered;      // what is missing is filled in: worker:0 of the cluster "test"
    std::vector<std::string> args;  // of the node program
    std::string program;
    std::string program_bytes;  // shipped, if not empty
    std::string served_bytes;   // what FetchProgram sends instead, if not empty
    int num_workers = 1;        // further workers have addresses under "other-host"
    bool send_spec = true;
    absl::Status refuse;                            // ends every Attach
    const FakeCoordinator* same_cluster = nullptr;  // whose certificate this one has
  };

  explicit FakeCoordinator(Options options);
  ~FakeCoordinator() override;

  // {"address", "ca_pem", "identity_pem", "token"}.
  [[nodiscard]] Json StartParams() const;
  [[nodiscard]] std::string address() const;

  // To the agent that is attached.
  void Send(const v1::CoordinatorMessage& message);
  // Ends the stream with this status.
  void EndStream(const absl::Status& status);
  // Ends every later one so; OK: accepts them again.
  void Refuse(const absl::Status& status);
  // Cancels the stream and closes the port.
  void Shutdown();

  // What came so far; updates are those of Register too.
  [[nodiscard]] std::vector<v1::AgentMessage> messages() const;
  [[nodiscard]] int registrations() const;
  bool WaitFor(const std::function<bool(const std::vector<v1::AgentMessage>&)>& done) const;
  bool WaitForState(v1::NodeState state) const;
  bool WaitForRegistrations(int count) const;
  [[nodiscard]] v1::NodeUpdate LastUpdate() const;
  // Log lines so far, and the count of dropped ones.
  [[nodiscard]] std::vector<std::string> LogLines(uint64_t* dropped = nullptr) const;

 private:
  using Stream = grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::AgentMessage>;

  grpc::Status Attach(grpc::ServerContext* context, Stream* stream) override;
  grpc::Status FetchProgram(grpc::ServerContext* context, const v1::FetchProgramRequest* request,
                            grpc::ServerWriter<v1::ProgramChunk>* writer) override;
  v1::Registered MakeRegistered() const;
  void AnswerKv(const v1::KvRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Options options_;
  std::string certificate_;
  std::string key_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  mutable Mutex mu_;
  mutable CondVar changed_;
  Stream* stream_ ABSL_GUARDED_BY(mu_) = nullptr;
  grpc::ServerContext* context_ ABSL_GUARDED_BY(mu_) = nullptr;
  absl::Status end_ ABSL_GUARDED_BY(mu_);
  absl::Status refuse_ ABSL_GUARDED_BY(mu_);
  int registrations_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<v1::AgentMessage> messages_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::string> kv_ ABSL_GUARDED_BY(mu_);
};

}  // namespace millrace

#endif  // CORE_AGENT_FAKE_COORDINATOR_H_
