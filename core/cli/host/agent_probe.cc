#include "core/cli/host/agent_probe.h"

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/deadline.h"
#include "core/base/mutex.h"
#include "core/base/random.h"
#include "core/base/text.h"
#include "core/base/version.h"
#include "core/cli/output/duration_text.h"
#include "core/cluster/adoption_call.h"
#include "core/net/socket_address.h"
#include "core/proto/adopt.pb.h"

namespace millrace::cli {
namespace {

constexpr uint32_t kProtocol = 1;
// Of files that a process may have open, the rest: 1,024 are usual.
constexpr size_t kMaxCalls = 256;

using Level = Finding::Level;

// The calls under way. Shared with them, since gRPC may speak up later.
class Probe : public std::enable_shared_from_this<Probe> {
 public:
  explicit Probe(size_t count) : answers_(count), calls_(count) {}

  void Dial(size_t index, const std::string& address, const AgentSecret& secret) {
    v1::Hold hold;
    hold.set_protocol(kProtocol);
    hold.set_version(kMillraceVersion);
    hold.set_adoption_id(RandomHex(16));
    // A cluster of its own for each: no agent may take two holds for one slot.
    hold.set_cluster_id(absl::StrCat("doctor-", RandomHex(4)));
    hold.set_driver(absl::StrCat("millrace doctor on ", LocalHostname(), " pid ", ::getpid()));
    auto call = AdoptionCall::Start(
        address, secret, hold,
        {.on_event =
             [probe = shared_from_this(), index](const v1::AdoptEvent& event) {
               if (event.has_held()) probe->OnHeld(index, event.held());
             },
         .on_done =
             [probe = shared_from_this(), index](const absl::Status& status,
                                                 std::shared_ptr<AdoptionCall> call) {
               probe->OnDone(index, status, std::move(call));
             }});
    bool held = false;  // already
    {
      MutexLock lock(&mu_);
      if (!answers_[index].done) calls_[index] = call;
      held = answers_[index].held;
    }
    if (held) Release(*call);
  }

  // Waits until at most `count` of the `begun` calls are not over. False: `deadline` came first.
  bool WaitForAtMost(size_t count, size_t begun, const Deadline& deadline) {
    MutexLock lock(&mu_);
    while (begun - num_done_ > count) {
      if (changed_.WaitWithTimeout(&mu_, deadline.Left())) return begun - num_done_ <= count;
    }
    return true;
  }

  void CancelAll() {
    std::vector<std::shared_ptr<AdoptionCall>> calls;
    {
      MutexLock lock(&mu_);
      calls = calls_;
    }
    for (const auto& call : calls) {
      if (call != nullptr) call->Cancel();
    }
  }

  struct Answer {
    bool done = false;
    absl::Status status;  // of the call
    bool held = false;
    v1::Held agent;
  };
  // Once all are over. On this thread they are let go of.
  std::vector<Answer> Take() {
    std::vector<std::shared_ptr<AdoptionCall>> over;
    MutexLock lock(&mu_);
    over.swap(over_);
    return answers_;
  }

 private:
  static void Release(AdoptionCall& call) {
    v1::AdoptRequest request;
    request.mutable_release();
    call.Send(std::move(request));
  }

  void OnHeld(size_t index, const v1::Held& held) {
    std::shared_ptr<AdoptionCall> call;
    {
      MutexLock lock(&mu_);
      answers_[index].held = true;
      answers_[index].agent = held;
      call = calls_[index];
    }
    if (call != nullptr) Release(*call);
  }

  void OnDone(size_t index, const absl::Status& status, std::shared_ptr<AdoptionCall> call) {
    MutexLock lock(&mu_);
    answers_[index].done = true;
    answers_[index].status = status;
    calls_[index].reset();
    over_.push_back(std::move(call));
    ++num_done_;
    changed_.SignalAll();
  }

  Mutex mu_;
  CondVar changed_;
  std::vector<Answer> answers_ ABSL_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<AdoptionCall>> calls_ ABSL_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<AdoptionCall>> over_ ABSL_GUARDED_BY(mu_);
  size_t num_done_ ABSL_GUARDED_BY(mu_) = 0;
};

Finding FindingOf(const AgentAddress& agent, const Probe::Answer& answer, absl::Duration timeout) {
  Finding finding = {Level::kProblem, agent.address, agent.node, "", ""};
  if (answer.held) {
    const v1::Held& held = answer.agent;
    finding.text = absl::StrCat("free, version ", EscapeControls(held.version()), ", on host ",
                                EscapeControls(held.host()), ", sees this driver as ",
                                EscapeControls(held.peer_host()));
    finding.level = Level::kOk;
    if (held.version() != kMillraceVersion) {
      finding.level = Level::kWarning;
      finding.advice =
          absl::StrCat("this is version ", kMillraceVersion, ": install the same on both");
    }
    return finding;
  }
  if (absl::IsResourceExhausted(answer.status)) {
    finding.level = Level::kOk;
    finding.text = EscapeControls(FirstLine(answer.status.message()));
    return finding;
  }
  // It says what to do, where anything is known.
  finding.text = absl::IsCancelled(answer.status)
                     ? absl::StrCat("no answer within ", DurationText(timeout))
                     : EscapeControls(FirstLine(answer.status.message()));
  if (absl::IsCancelled(answer.status)) {
    finding.advice = "is the host up, and the port open between here and there?";
  }
  return finding;
}

}  // namespace

std::vector<Finding> ProbeAgents(const std::vector<AgentAddress>& agents, const AgentSecret& secret,
                                 absl::Duration timeout) {
  const Deadline deadline(timeout);
  const auto probe = std::make_shared<Probe>(agents.size());
  size_t begun = 0;
  while (begun < agents.size() && probe->WaitForAtMost(kMaxCalls - 1, begun, deadline)) {
    probe->Dial(begun, agents[begun].address, secret);
    ++begun;
  }
  if (!probe->WaitForAtMost(0, begun, deadline)) {
    probe->CancelAll();
    probe->WaitForAtMost(0, begun, Deadline::Never());  // a cancelled call ends at once
  }
  std::vector<Probe::Answer> answers = probe->Take();
  for (size_t i = begun; i < agents.size(); ++i) {
    answers[i].status = absl::CancelledError("not asked");
  }
  std::vector<Finding> findings;
  for (size_t i = 0; i < agents.size(); ++i) {
    findings.push_back(FindingOf(agents[i], answers[i], timeout));
  }
  return findings;
}

}  // namespace millrace::cli
