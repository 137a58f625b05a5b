#include "testing/ledger/ledger_node_process.h"

#include <csignal>
#include <cstring>
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "core/base/file.h"
#include "core/base/random.h"
#include "core/process/exit_status.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

}  // namespace

TcpFault TcpFaultPlan::Next() {
  MutexLock lock(&mu_);
  if (left_ == 0 || random_() % 4 == 0) return {};
  --left_;
  TcpFault fault;
  const uint64_t kind = random_() % 8;
  fault.kind = kind == 0  ? TcpFault::Kind::kStall
               : kind < 3 ? TcpFault::Kind::kDelay
                          : TcpFault::Kind::kCut;
  // The handshake, the first frames, or somewhere in the rows.
  const uint64_t most[] = {200, 1500, 20'000};
  fault.after_bytes = static_cast<int64_t>(random_() % most[random_() % 3]);
  fault.delay = absl::Milliseconds(random_() % 1500);
  return fault;
}

absl::Status LedgerNode::Start(uint64_t seed) {
  MutexLock lock(&mu_);
  const std::string base = JoinPath(options_.folder, absl::StrCat(options_.name, ".", attempt_));
  logs_.push_back(base + ".log");
  control_ = base + ".control";
  std::ofstream(control_).flush();
  const std::string nonce = RandomHex(8);
  MILLRACE_ASSIGN_OR_RETURN(
      process_,
      ChildProcess::Start({RunfilePath(options_.program), options_.mode, absl::StrCat(seed),
                           absl::StrCat(options_.max_bite), absl::StrCat(options_.budget_bytes),
                           nonce, logs_.back(), control_}));
  MILLRACE_ASSIGN_OR_RETURN(const std::string ready, process_->WaitForLine("ready", kPatience));
  const std::vector<std::string> words = absl::StrSplit(ready, ' ');
  int port = 0;
  if (words.size() != 3 || !absl::SimpleAtoi(words[1].substr(words[1].rfind(':') + 1), &port)) {
    return absl::InternalError(absl::StrCat("the node says: ", ready));
  }
  MILLRACE_ASSIGN_OR_RETURN(
      auto proxy, TcpFaultProxy::Start(port, [plan = plan_](bool) { return plan->Next(); }));
  proxies_.push_back(std::move(proxy));
  directory_->Set({.node = options_.name,
                   .attempt = attempt_++,
                   .nonce = nonce,
                   .tcp_endpoint = absl::StrCat("tcp://127.0.0.1:", proxies_.back()->port()),
                   .key = words[2]});
  return absl::OkStatus();
}

absl::Status LedgerNode::Kill(absl::Duration until_known, FeedTarget::State state) {
  {
    MutexLock lock(&mu_);
    process_->Kill(SIGKILL);
  }
  absl::SleepFor(until_known);
  directory_->SetState(options_.name, state, absl::AbortedError("killed by signal 9"));
  MutexLock lock(&mu_);
  const absl::Status status = process_->Wait(kPatience).status();
  process_.reset();
  return status;
}

void LedgerNode::Tell(const std::string& line) {
  MutexLock lock(&mu_);
  std::ofstream control(control_, std::ios::app);
  control << line << std::endl;
}

absl::Status LedgerNode::End() {
  Tell("end");
  return WaitForEnd();
}

absl::Status LedgerNode::WaitForEnd() {
  MutexLock lock(&mu_);
  if (process_ == nullptr) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const ExitStatus exit, process_->Wait(kPatience));
  process_.reset();
  if (exit.kind == ExitStatus::Kind::kExited && exit.code == 0) return absl::OkStatus();
  return absl::UnknownError(absl::StrCat(options_.name, " did not exit with 0"));
}

absl::StatusOr<std::vector<std::vector<int64_t>>> LedgerNode::Logs() {
  MutexLock lock(&mu_);
  std::vector<std::vector<int64_t>> logs;
  for (const std::string& path : logs_) {
    MILLRACE_ASSIGN_OR_RETURN(const std::string log, ReadFile(path));
    std::vector<int64_t>& numbers = logs.emplace_back(log.size() / sizeof(int64_t));
    std::memcpy(numbers.data(), log.data(), numbers.size() * sizeof(int64_t));
  }
  return logs;
}

absl::Status LedgerNode::CountRows(std::map<int64_t, int64_t>* handed,
                                   std::map<int64_t, int64_t>* used) {
  MILLRACE_ASSIGN_OR_RETURN(const auto logs, Logs());
  for (const std::vector<int64_t>& log : logs) {
    for (const int64_t number : log) ++(number >= 0 ? (*handed)[number] : (*used)[-1 - number]);
  }
  return absl::OkStatus();
}

int LedgerNode::faults() {
  MutexLock lock(&mu_);
  int sum = 0;
  for (const auto& proxy : proxies_) sum += proxy->faults();
  return sum;
}

pid_t LedgerNode::pid() {
  MutexLock lock(&mu_);
  return process_ == nullptr ? -1 : process_->pid();
}

}  // namespace millrace
