// File: testing/listening_agent.h
//
// A `millrace-agent agent --listen` on a loopback address, as on a host or in a pod of its own.
//
// Defines: ListeningAgent.
//
//   MILLRACE_ASSIGN_OR_RETURN(auto agent, ListeningAgent::Start("127.0.0.2", secret_file));
//   agent->address();   // "127.0.0.2:40123"
#ifndef TESTING_LISTENING_AGENT_H_
#define TESTING_LISTENING_AGENT_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "testing/child_process.h"

namespace millrace {

// Thread safety: single-threaded. Blocking: Start waits until it listens, the Wait functions.
// Lifetime: the destructor kills it; what it runs ends with it.
class ListeningAgent {
 public:
  // `host` may have a port. `secret` is a file, or a folder. `descriptor_limit`: its soft and hard
  // limit of file descriptors; 0: the test's. Returns DEADLINE_EXCEEDED, or OUT_OF_RANGE if it
  // ended.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ListeningAgent>> Start(
      const std::string& host, const std::string& secret, int descriptor_limit = 0);

  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] ChildProcess& process() { return *process_; }
  // Waits for a line "millrace-agent: <text>...", such as "adopted" or "free again", after those
  // that were waited for.
  absl::StatusOr<std::string> WaitFor(absl::string_view text, absl::Duration timeout);

 private:
  ListeningAgent(std::unique_ptr<ChildProcess> process, std::string address)
      : process_(std::move(process)), address_(std::move(address)) {}

  std::unique_ptr<ChildProcess> process_;
  std::string address_;
};

}  // namespace millrace

#endif  // TESTING_LISTENING_AGENT_H_
