// File: testing/leak_check.h
//
// Holds that a test leaves nothing behind: no process, no listening port, no abstract socket, no
// file.
//
// Defines: LeakCheck.
//
//   LeakCheck leaks;                          // before anything is started
//   RunClusterThatFails(leaks.folder());
//   leaks.ExpectNothingLeft(absl::Seconds(5));   // fails the test, naming each thing that is left

#ifndef TESTING_LEAK_CHECK_H_
#define TESTING_LEAK_CHECK_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "core/base/file.h"
#include "testing/process_table.h"

namespace millrace {

// From construction to destruction this process's environment has
//   MILLRACE_TEST_ID   random; whatever is started inherits it, and is known by it even when its
//                      parents are gone
//   TMPDIR, HOME       a fresh folder, removed at the end
//
// What counts as left: processes that bear the id or descend from this one, zombies included;
// listening TCP and named abstract sockets of those and of this process; files and folders in the
// fresh folder. What was there at construction, or was allowed since, does not count.
//
// Thread safety: not thread-safe; it changes the environment, so construct it before threads are
// started. One at a time. Blocking: ExpectNothingLeft() and WaitUntilNothingLeft() poll.
class LeakCheck {
 public:
  LeakCheck();
  ~LeakCheck();
  LeakCheck(const LeakCheck&) = delete;
  LeakCheck& operator=(const LeakCheck&) = delete;

  // The fresh folder.
  [[nodiscard]] const std::string& folder() const { return folder_->path(); }
  // "MILLRACE_TEST_ID=...".
  [[nodiscard]] const std::string& marker() const { return marker_; }

  // `path`, relative to folder() or absolute, and everything below it may stay.
  void AllowPath(const std::string& path);

  // What was started since and still is there, this process not included.
  [[nodiscard]] std::vector<ProcessInfo> Processes() const;
  // Sockets opened since, of those and of this process.
  [[nodiscard]] std::vector<BoundSocket> Sockets() const;
  // One line for each thing that is left now.
  [[nodiscard]] std::vector<std::string> Leftovers() const;

  // Polls until nothing is left or `within` has passed. Returns what is left then.
  [[nodiscard]] std::vector<std::string> WaitUntilNothingLeft(absl::Duration within) const;
  // The same, as a failure of the running test. The processes are then killed, so that they do not
  // outlive the test.
  void ExpectNothingLeft(absl::Duration within);

 private:
  std::vector<std::string> Files() const;
  void SetEnvironment(const std::string& name, const std::string& value);

  std::optional<TempDir> folder_;  // always set
  std::string marker_;
  std::vector<std::pair<std::string, std::optional<std::string>>> environment_;  // to be restored
  std::set<std::pair<pid_t, uint64_t>> processes_before_;                        // pid, start time
  std::set<uint64_t> sockets_before_;                                            // inodes
  std::set<std::string> allowed_paths_;
};

}  // namespace millrace

#endif  // TESTING_LEAK_CHECK_H_
