// File: testing/attacks/other_user.h
//
// A program run as another local user, who cannot read what is this test's own.
//
// Defines: OtherUser.
//
//   MILLRACE_ASSIGN_OR_RETURN(OtherUser other, OtherUser::Create());
//   MILLRACE_ASSIGN_OR_RETURN(auto child, other.Start("testing/attacks/squatter", {endpoint}));

#ifndef TESTING_ATTACKS_OTHER_USER_H_
#define TESTING_ATTACKS_OTHER_USER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "testing/child_process.h"

namespace millrace {

// Thread safety: single-threaded. Lifetime: the programs that it started may outlive it.
class OtherUser {
 public:
  // UNAVAILABLE, with the reason, where this process may not become another user.
  [[nodiscard]] static absl::StatusOr<OtherUser> Create();

  OtherUser(OtherUser&& other) noexcept : folder_(std::exchange(other.folder_, "")) {}
  OtherUser(const OtherUser&) = delete;
  OtherUser& operator=(const OtherUser&) = delete;
  ~OtherUser();

  // `program` is of this repository. It is copied to where the user can read it.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<ChildProcess>> Start(
      const std::string& program, const std::vector<std::string>& arguments) const;

  // Runs a program of the system to its end, for at most 30 s: `argv[0]` is its path. An error
  // unless it ends with 0.
  [[nodiscard]] absl::Status Run(const std::vector<std::string>& argv) const;

 private:
  explicit OtherUser(std::string folder) : folder_(std::move(folder)) {}

  std::string folder_;  // that the other user can read; empty once moved from
};

}  // namespace millrace

#endif  // TESTING_ATTACKS_OTHER_USER_H_
