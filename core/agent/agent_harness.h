// File: core/agent/agent_harness.h
//
// A millrace-agent process as its parent sees it. Test only.
//
//   AgentHarness agent;
//   agent.Send(R"({"id":1,"method":"status"})");
//   Json reply = agent.ReadReply();
//   agent.CloseStdin();
//   EXPECT_EQ(agent.WaitExit(), 0);

#ifndef CORE_AGENT_AGENT_HARNESS_H_
#define CORE_AGENT_AGENT_HARNESS_H_

#include <sys/types.h>

#include <deque>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/base/line_reader.h"
#include "core/base/unique_fd.h"

namespace millrace {

// Path of a file of this package, as tests find it.
[[nodiscard]] std::string TestFile(absl::string_view name);

// Whether the process is gone (or a zombie) within `timeout`.
bool WaitGone(pid_t pid, absl::Duration timeout = absl::Seconds(40));

// Thread safety: not thread-safe. Blocking: reads and waits, for at most 40 s.
// The destructor kills the process.
class AgentHarness {
 public:
  explicit AgentHarness(const std::vector<std::string>& args = {"agent", "--parent=stdin"},
                        const std::vector<std::string>& extra_env = {});
  // Another program of this package, with the same pipes.
  AgentHarness(absl::string_view program, const std::vector<std::string>& args,
               const std::vector<std::string>& extra_env = {});
  ~AgentHarness();

  void Send(absl::string_view line);
  void Start(const Json& params);
  void CloseStdin() { stdin_.reset(); }

  // The next line; null after the end of the agent's output or 40 s.
  Json ReadLine();
  // The next line that is an event of this name / a state event with this state, or null. What
  // comes before is kept in lines().
  Json ReadEvent(absl::string_view event);
  Json ReadState(absl::string_view state);
  // The next line that is a reply.
  Json ReadReply();

  // The exit code, minus the signal, or -1000 after 40 s. stderr_text() is complete then.
  int WaitExit();
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] const std::vector<std::string>& lines() const { return seen_; }
  [[nodiscard]] std::string stderr_text();

 private:
  pid_t pid_ = 0;
  bool reaped_ = false;
  UniqueFd stdin_;
  UniqueFd stdout_;
  UniqueFd stderr_file_;
  LineReader reader_;
  std::vector<std::string> seen_;
};

}  // namespace millrace

#endif  // CORE_AGENT_AGENT_HARNESS_H_
