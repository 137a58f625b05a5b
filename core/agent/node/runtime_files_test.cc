#include "core/agent/node/runtime_files.h"

#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/agent/loop/guard.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

// What the guard does once the agent is killed.
void EndOfAgent(Guard& guard) {
  const pid_t pid = guard.pid();
  guard = Guard();
  EXPECT_EQ(::waitpid(pid, nullptr, 0), pid);
}

TEST(RuntimeFilesTest, WithAKilledAgentsOwnFolderGoesWhatItWasAboutToRename) {
  absl::StatusOr<Guard> guard = Guard::Start();
  ASSERT_THAT(guard, IsOk());
  const absl::StatusOr<std::unique_ptr<RuntimeFiles>> files = RuntimeFiles::Open("", "a", &*guard);
  ASSERT_THAT(files, IsOk());
  const std::string folder = (*files)->dir();
  ASSERT_THAT(WriteFileAtomic((*files)->Claim("context.json") + ".tmp.k5YxQa", "{"), IsOk());
  EndOfAgent(*guard);
  EXPECT_NE(::access(folder.c_str(), F_OK), 0) << folder;
}

TEST(RuntimeFilesTest, InAFolderThatWasGivenItOthersKeepTheirFiles) {
  const absl::StatusOr<TempDir> parent = TempDir::Create("runtime");
  ASSERT_THAT(parent, IsOk());
  absl::StatusOr<Guard> guard = Guard::Start();
  ASSERT_THAT(guard, IsOk());
  const auto files = RuntimeFiles::Open(JoinPath(parent->path(), "run"), "a", &*guard);
  ASSERT_THAT(files, IsOk());
  const std::string of_another = JoinPath((*files)->dir(), "b-context.json");
  const std::string own = (*files)->Claim("context.json");
  ASSERT_THAT(WriteFileAtomic(of_another, "{}"), IsOk());
  ASSERT_THAT(WriteFileAtomic(own, "{}"), IsOk());
  EndOfAgent(*guard);
  EXPECT_NE(::access(own.c_str(), F_OK), 0);
  EXPECT_EQ(::access(of_another.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace millrace
