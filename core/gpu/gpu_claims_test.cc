#include "core/gpu/gpu_claims.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/random.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

const GpuOwner kOwner = {.cluster_id = "digits", .node = "worker:1"};

// Names are the host's, and tests run side by side: each has GPUs of its own.
class GpuClaimsTest : public testing::Test {
 protected:
  std::string Uuid(int index) const { return absl::StrCat("GPU-", index, "-", salt_); }
  std::string Mig(int index) const { return absl::StrCat("MIG-", index, "-", salt_); }

  GpuSnapshot Gpus(int count) const {
    GpuSnapshot snapshot;
    snapshot.source = GpuSource::kNvml;
    for (int i = 0; i < count; ++i) {
      GpuReading gpu;
      gpu.index = i;
      gpu.uuid = Uuid(i);
      gpu.mig_mode = false;
      snapshot.gpus.push_back(gpu);
    }
    return snapshot;
  }

  // GPU 0 in MIG mode with two instances, GPU 1 as it is.
  GpuSnapshot MigAndWhole() const {
    GpuSnapshot snapshot = Gpus(2);
    snapshot.gpus[0].mig_mode = true;
    for (int i = 0; i < 2; ++i) {
      GpuReading instance;
      instance.index = 0;
      instance.uuid = Mig(i);
      instance.parent_uuid = Uuid(0);
      instance.gpu_instance = i + 1;
      instance.compute_instance = 0;
      snapshot.gpus.insert(snapshot.gpus.begin() + 1 + i, instance);
    }
    return snapshot;
  }

  // Waits for its turn, as an agent does.
  absl::StatusOr<GpuClaim> Claim(const GpuSnapshot& snapshot, const GpuRequest& request,
                                 const std::optional<std::string>& visible = std::nullopt) {
    for (int tries = 0;; ++tries) {
      absl::StatusOr<GpuClaim> claim =
          ClaimGpus(snapshot, request, kOwner, {.visible_devices = visible});
      if (!absl::IsAborted(claim.status()) || tries == 10000) return claim;
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

  const std::string salt_ = RandomHex(8);
};

TEST_F(GpuClaimsTest, ANumberOfGpusComesInTheirOrder) {
  const GpuSnapshot snapshot = Gpus(4);
  const auto two = Claim(snapshot, {.count = 2});
  ASSERT_THAT(two, IsOk());
  EXPECT_THAT(two->ids(), ElementsAre(Uuid(0), Uuid(1)));
  const auto rest = Claim(snapshot, {.count = 2});
  ASSERT_THAT(rest, IsOk());
  EXPECT_THAT(rest->ids(), ElementsAre(Uuid(2), Uuid(3)));
}

TEST_F(GpuClaimsTest, GpusThatNobodyUsesComeFirst) {
  GpuSnapshot snapshot = Gpus(3);
  snapshot.gpus[0].processes.emplace().push_back({.pid = 99});
  snapshot.gpus[1].processes.emplace();
  const auto one = Claim(snapshot, {.count = 1});
  ASSERT_THAT(one, IsOk());
  EXPECT_THAT(one->ids(), ElementsAre(Uuid(1)));
  const auto two = Claim(snapshot, {.count = 2});
  ASSERT_THAT(two, IsOk());
  EXPECT_THAT(two->ids(), ElementsAre(Uuid(0), Uuid(2)));
}

TEST_F(GpuClaimsTest, AFailedGpuIsNotDealt) {
  GpuSnapshot snapshot = Gpus(2);
  snapshot.gpus[0].error = "GPU is lost";
  const auto one = Claim(snapshot, {.count = 1});
  ASSERT_THAT(one, IsOk());
  EXPECT_THAT(one->ids(), ElementsAre(Uuid(1)));
  EXPECT_THAT(Claim(snapshot, {.count = 2}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("has failed: GPU is lost")));
}

TEST_F(GpuClaimsTest, TooFewSaysWhichAreFreeAndWhoHoldsTheOthers) {
  const GpuSnapshot snapshot = Gpus(3);
  const auto held = Claim(snapshot, {.ids = {"1"}});
  ASSERT_THAT(held, IsOk());
  EXPECT_THAT(Claim(snapshot, {.count = 3}),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("worker:1 needs 3 GPUs; of 3 on host"),
                             HasSubstr("2 are free: GPU 0 ("), HasSubstr("GPU 1 ("),
                             HasSubstr(absl::StrCat("is held by worker:1 of cluster digits (pid ",
                                                    getpid(), ")")))));
  EXPECT_THAT(Claim(snapshot, {.ids = {Uuid(1)}}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("is held by worker:1")));
  // A failed claim holds nothing.
  EXPECT_THAT(Claim(snapshot, {.count = 2}), IsOk());
}

TEST_F(GpuClaimsTest, AClaimEndsWithItsObjectAndOneByOne) {
  const GpuSnapshot snapshot = Gpus(2);
  {
    const auto all = Claim(snapshot, {.count = 2});
    ASSERT_THAT(all, IsOk());
    EXPECT_FALSE(Claim(snapshot, {.count = 1}).ok());
  }
  auto all = Claim(snapshot, {.count = 1});
  ASSERT_THAT(all, IsOk());
  auto more = Claim(snapshot, {.count = 1});
  ASSERT_THAT(more, IsOk());
  all->Add(*std::move(more));
  EXPECT_THAT(all->ids(), ElementsAre(Uuid(0), Uuid(1)));
  EXPECT_TRUE(all->Release(Uuid(0)));
  EXPECT_FALSE(all->Release(Uuid(0)));
  const auto again = Claim(snapshot, {.count = 1});
  ASSERT_THAT(again, IsOk());
  EXPECT_THAT(again->ids(), ElementsAre(Uuid(0)));
}

TEST_F(GpuClaimsTest, WhatIsClaimedAndWhatIsFreeIsCountedAndNotTaken) {
  const GpuSnapshot snapshot = Gpus(3);
  const auto count = [&](const std::optional<std::string>& visible = std::nullopt) {
    const std::optional<GpuUse> use = CountGpus(snapshot, visible);
    return use.has_value() ? std::vector<int>{use->claimed, use->free} : std::vector<int>{};
  };
  EXPECT_THAT(count(), ElementsAre(0, 3));
  auto claim = Claim(snapshot, {.ids = {Uuid(1)}});
  ASSERT_THAT(claim, IsOk());
  EXPECT_THAT(count(), ElementsAre(1, 2));
  EXPECT_THAT(count("1"), ElementsAre(1, 0));
  EXPECT_THAT(count("0,2"), ElementsAre(0, 2));
  EXPECT_THAT(count(""), ElementsAre(0, 0));
  EXPECT_THAT(Claim(snapshot, {.count = 2}), IsOk()) << "counting has taken one";
  EXPECT_TRUE(claim->Release(Uuid(1)));
  EXPECT_THAT(count(), ElementsAre(0, 3));
  const std::optional<GpuUse> instances = CountGpus(MigAndWhole(), std::nullopt);
  ASSERT_TRUE(instances.has_value());
  EXPECT_EQ(instances->free, 3);
}

TEST_F(GpuClaimsTest, IdsAreIndicesUuidsAndTheirBeginnings) {
  const GpuSnapshot snapshot = Gpus(12);
  const auto claim =
      Claim(snapshot, {.ids = {"3", Uuid(5), absl::StrCat("GPU-7-", salt_.substr(0, 3))}});
  ASSERT_THAT(claim, IsOk());
  EXPECT_THAT(claim->ids(), ElementsAre(Uuid(3), Uuid(5), Uuid(7)));
  EXPECT_THAT(Claim(snapshot, {.ids = {"GPU-1"}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("beginning of 3 ids")));
  EXPECT_THAT(Claim(snapshot, {.ids = {"12"}}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("does not have; it has GPU 0 (")));
  EXPECT_THAT(Claim(snapshot, {.ids = {"GPU-none"}}), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(Claim(snapshot, {.ids = {"0", Uuid(0)}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("twice")));
  EXPECT_THAT(Claim(snapshot, {}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Claim(snapshot, {.count = 1, .ids = {"0"}}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Claim(snapshot, {.count = -1}), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(GpuClaimsTest, OfAGpuInMigModeTheInstancesAreClaimed) {
  const GpuSnapshot snapshot = MigAndWhole();
  EXPECT_THAT(Claim(snapshot, {.ids = {"0"}}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("MIG mode")));
  const auto whole = Claim(snapshot, {.count = 1});
  ASSERT_THAT(whole, IsOk());
  EXPECT_THAT(whole->ids(), ElementsAre(Uuid(1)));
  const auto instance = Claim(snapshot, {.ids = {absl::StrCat("MIG-", Uuid(0), "/2/0")}});
  ASSERT_THAT(instance, IsOk());
  EXPECT_THAT(instance->ids(), ElementsAre(Mig(1)));
  // Whole GPUs are gone: an instance.
  const auto last = Claim(snapshot, {.count = 1});
  ASSERT_THAT(last, IsOk());
  EXPECT_THAT(last->ids(), ElementsAre(Mig(0)));
  EXPECT_THAT(Claim(snapshot, {.count = 1}), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(GpuClaimsTest, InheritedVisibleDevicesAreTheOnlyOnes) {
  const GpuSnapshot snapshot = Gpus(4);
  const std::string visible = absl::StrCat("3, ", Uuid(1));
  EXPECT_THAT(
      Claim(snapshot, {.count = 3}, visible),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("of 2 on host"), HasSubstr("CUDA_VISIBLE_DEVICES=3, GPU-1"))));
  EXPECT_THAT(Claim(snapshot, {.ids = {"0"}}, visible),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("may not use")));
  const auto both = Claim(snapshot, {.count = 2}, visible);
  ASSERT_THAT(both, IsOk());
  EXPECT_THAT(both->ids(), ElementsAre(Uuid(1), Uuid(3)));
}

TEST_F(GpuClaimsTest, VisibleDevicesAreReadAsCudaReadsThem) {
  const GpuSnapshot snapshot = Gpus(4);
  for (const std::string none : {"", "-1", "NoDevFiles", "9,0", "x"}) {
    EXPECT_THAT(Claim(snapshot, {.count = 1}, none),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr(absl::StrCat("CUDA_VISIBLE_DEVICES=", none))))
        << none;
  }
  // What follows an entry that names nothing does not count.
  const auto first = Claim(snapshot, {.count = 1}, "2,-1,0");
  ASSERT_THAT(first, IsOk());
  EXPECT_THAT(first->ids(), ElementsAre(Uuid(2)));
  EXPECT_FALSE(Claim(snapshot, {.count = 1}, "2,-1,0").ok());
  const auto instance = Claim(MigAndWhole(), {.count = 1}, Mig(1));
  ASSERT_THAT(instance, IsOk());
  EXPECT_THAT(instance->ids(), ElementsAre(Mig(1)));
}

TEST_F(GpuClaimsTest, WithoutGpusTheReasonIsSaid) {
  GpuSnapshot snapshot;
  EXPECT_THAT(Claim(snapshot, {.count = 1}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has none")));
  snapshot.unknown = "libnvidia-ml.so.1 cannot be loaded";
  EXPECT_THAT(Claim(snapshot, {.count = 1}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("libnvidia-ml.so.1 cannot be loaded")));
}

TEST_F(GpuClaimsTest, LongNamesOfOwnersAreCut) {
  const GpuSnapshot snapshot = Gpus(1);
  const GpuOwner owner = {.cluster_id = std::string(128, 'c'),
                          .node = std::string(70, 'n') + "/ :1"};
  absl::StatusOr<GpuClaim> claim;
  while (absl::IsAborted((claim = ClaimGpus(snapshot, {.count = 1}, owner)).status())) {
  }
  ASSERT_THAT(claim, IsOk());
  EXPECT_THAT(Claim(snapshot, {.count = 1}), StatusIs(absl::StatusCode::kResourceExhausted,
                                                      AllOf(HasSubstr("nnnn"), HasSubstr("cccc"),
                                                            Not(HasSubstr("does not say")))));
}

// ---- processes ----------------------------------------------------------------------------------

// A process that claims one GPU, says which ("" if it got none), and holds it until it is killed.
struct Claimer {
  pid_t pid = 0;
  int out = -1;
};

class GpuRaceTest : public GpuClaimsTest {
 protected:
  Claimer Start(const GpuSnapshot& snapshot, int start_fd) {
    int fds[2];
    if (pipe(fds) != 0) abort();
    const pid_t pid = fork();
    if (pid == 0) {
      close(fds[0]);
      char go;
      (void)!read(start_fd, &go, 1);  // the end of the pipe: everybody at once
      const absl::StatusOr<GpuClaim> claim = Claim(snapshot, {.count = 1});
      const std::string line =
          absl::StrCat(claim.ok() ? claim->ids()[0] : claim.status().ToString(), "\n");
      (void)!write(fds[1], line.data(), line.size());
      for (;;) pause();
    }
    close(fds[1]);
    return {pid, fds[0]};
  }

  static std::string ReadLine(int fd) {
    std::string line;
    char c;
    while (read(fd, &c, 1) == 1 && c != '\n') line += c;
    return line;
  }

  static void Kill(Claimer* claimer) {
    kill(claimer->pid, SIGKILL);
    waitpid(claimer->pid, nullptr, 0);
    close(claimer->out);
  }
};

TEST_F(GpuRaceTest, EightProcessesOnEightGpusNeverShareOneWhateverDies) {
  constexpr int kGpus = 8;
  constexpr int kRounds = 200;
  const GpuSnapshot snapshot = Gpus(kGpus);
  for (int round = 0; round < kRounds; ++round) {
    int start[2];
    ASSERT_EQ(pipe(start), 0);
    std::map<std::string, Claimer> holders;
    std::vector<Claimer> claimers;
    for (int i = 0; i < kGpus; ++i) {
      claimers.push_back(Start(snapshot, start[0]));
    }
    // The children hold copies of the write end as well: a byte for each.
    ASSERT_EQ(write(start[1], "12345678", kGpus), kGpus);
    for (Claimer& claimer : claimers) {
      const std::string id = ReadLine(claimer.out);
      ASSERT_THAT(id, testing::StartsWith("GPU-")) << "round " << round;
      ASSERT_TRUE(holders.emplace(id, claimer).second) << id << " twice in round " << round;
    }
    ASSERT_THAT(holders, SizeIs(kGpus));
    EXPECT_FALSE(Claim(snapshot, {.count = 1}).ok());
    // Some die by SIGKILL; just theirs are free, for newcomers that race again.
    std::set<std::string> freed;
    for (int i = 0; i < 1 + round % 3; ++i) {
      auto victim = holders.begin();
      std::advance(victim, RandomU64() % holders.size());
      freed.insert(victim->first);
      Kill(&victim->second);
      holders.erase(victim);
    }
    std::vector<Claimer> newcomers;
    for (size_t i = 0; i < freed.size(); ++i) newcomers.push_back(Start(snapshot, start[0]));
    ASSERT_EQ(write(start[1], "12345678", freed.size()), static_cast<ssize_t>(freed.size()));
    for (Claimer& claimer : newcomers) {
      const std::string id = ReadLine(claimer.out);
      ASSERT_EQ(freed.erase(id), 1u) << "got " << id << " in round " << round;
      holders.emplace(id, claimer);
    }
    for (auto& [id, claimer] : holders) Kill(&claimer);
    close(start[0]);
    close(start[1]);
  }
  EXPECT_THAT(Claim(snapshot, {.count = kGpus}), IsOk());
}

TEST_F(GpuRaceTest, ACopyInAnotherProcessKeepsAClaim) {
  const GpuSnapshot snapshot = Gpus(1);
  auto claim = Claim(snapshot, {.count = 1});
  ASSERT_THAT(claim, IsOk());
  EXPECT_THAT(claim->fds(Uuid(0)), SizeIs(2));
  EXPECT_THAT(claim->fds("GPU-none"), IsEmpty());
  const pid_t pid = fork();
  if (pid == 0) {
    for (;;) pause();
  }
  claim = GpuClaim();
  EXPECT_THAT(Claim(snapshot, {.count = 1}), StatusIs(absl::StatusCode::kResourceExhausted));
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  EXPECT_THAT(Claim(snapshot, {.count = 1}), IsOk());
}

}  // namespace
}  // namespace millrace
