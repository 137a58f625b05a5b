#include "core/proto/spec_proto.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

ClusterSpec Spec() {
  ClusterSpec spec;
  EXPECT_THAT(spec.AddJob("ps", {"h0:1"}), IsOk());
  EXPECT_THAT(spec.AddSparseJob("worker", {{1, "h1:1"}, {7, "h7:1"}}), IsOk());
  return spec;
}

TEST(SpecProtoTest, ASpecSurvivesTheRoundTrip) {
  ClusterSpec spec;
  uint64_t epoch = 0;
  ASSERT_THAT(ApplySpecUpdate(MakeSpecUpdate(Spec(), 1), &epoch, &spec), IsOk());
  EXPECT_EQ(spec, Spec());
  EXPECT_EQ(epoch, 1u);
}

TEST(SpecProtoTest, AnEmptySpecSurvivesTheRoundTrip) {
  ClusterSpec spec = Spec();
  uint64_t epoch = 0;
  ASSERT_THAT(ApplySpecUpdate(MakeSpecUpdate(ClusterSpec(), 1), &epoch, &spec), IsOk());
  EXPECT_TRUE(spec.empty());
}

TEST(SpecProtoTest, TenThousandTasksCompressWell) {
  ClusterSpec::TaskList tasks;
  for (int i = 0; i < 10000; ++i) tasks.push_back(absl::StrCat("host-", i, ".example:", 9000 + i));
  ClusterSpec spec;
  ASSERT_THAT(spec.AddJob("worker", tasks), IsOk());
  const v1::SpecUpdate update = MakeSpecUpdate(spec, 3);
  EXPECT_LT(update.zlib_cluster_def().size() * 3, update.uncompressed_size());
  ClusterSpec out;
  uint64_t epoch = 0;
  ASSERT_THAT(ApplySpecUpdate(update, &epoch, &out), IsOk());
  EXPECT_EQ(out, spec);
}

v1::SpecUpdate Change(uint64_t epoch, const std::string& job, int index, const std::string& to) {
  v1::SpecUpdate update;
  update.set_epoch(epoch);
  v1::TaskChange* change = update.add_changes();
  change->set_job_name(job);
  change->set_task_index(index);
  change->set_address(to);
  return update;
}

TEST(SpecProtoTest, ChangesMoveAddAndRemoveTasks) {
  ClusterSpec spec = Spec();
  uint64_t epoch = 1;
  EXPECT_THAT(ApplySpecUpdate(Change(2, "ps", 0, "h9:9"), &epoch, &spec), IsOk());
  EXPECT_THAT(spec.TaskAddress("ps", 0), IsOkAndHolds("h9:9"));
  EXPECT_THAT(ApplySpecUpdate(Change(3, "worker", 7, ""), &epoch, &spec), IsOk());
  EXPECT_THAT(spec.TaskAddress("worker", 7), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(ApplySpecUpdate(Change(4, "chief", 0, "h5:5"), &epoch, &spec), IsOk());
  EXPECT_THAT(spec.TaskAddress("chief", 0), IsOkAndHolds("h5:5"));
  EXPECT_EQ(epoch, 4u);
}

TEST(SpecProtoTest, AGapBetweenEpochsIsRefusedAndAnOldEpochIgnored) {
  ClusterSpec spec = Spec();
  uint64_t epoch = 4;
  EXPECT_THAT(ApplySpecUpdate(Change(6, "ps", 0, "x:1"), &epoch, &spec),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("epoch 6")));
  EXPECT_THAT(ApplySpecUpdate(Change(4, "ps", 0, "x:1"), &epoch, &spec), IsOk());
  EXPECT_EQ(spec, Spec());
  EXPECT_EQ(epoch, 4u);
}

TEST(SpecProtoTest, HostileUpdatesAreErrorsAndChangeNothing) {
  ClusterSpec spec = Spec();
  uint64_t epoch = 1;
  auto refused = [&](const v1::SpecUpdate& update, absl::StatusCode code) {
    EXPECT_THAT(ApplySpecUpdate(update, &epoch, &spec), StatusIs(code));
    EXPECT_EQ(spec, Spec());
    EXPECT_EQ(epoch, 1u);
  };
  v1::SpecUpdate good = MakeSpecUpdate(Spec(), 2);

  v1::SpecUpdate update = good;
  update.set_epoch(0);
  refused(update, absl::StatusCode::kInvalidArgument);

  update = good;
  for (size_t size = 1; size < good.zlib_cluster_def().size(); ++size) {  // truncated
    update.set_zlib_cluster_def(good.zlib_cluster_def().substr(0, size));
    refused(update, absl::StatusCode::kInvalidArgument);
  }
  update.set_zlib_cluster_def(good.zlib_cluster_def() + "x");
  refused(update, absl::StatusCode::kInvalidArgument);
  update.set_zlib_cluster_def(std::string(1000, '\x5a'));  // garbage
  refused(update, absl::StatusCode::kInvalidArgument);

  update = good;
  update.set_uncompressed_size(good.uncompressed_size() - 1);
  refused(update, absl::StatusCode::kInvalidArgument);
  update.set_uncompressed_size(good.uncompressed_size() + 1);
  refused(update, absl::StatusCode::kInvalidArgument);
  update.set_uncompressed_size(0xffffffff);
  refused(update, absl::StatusCode::kResourceExhausted);

  update.Clear();
  update.set_epoch(2);
  refused(update, absl::StatusCode::kInvalidArgument);
  refused(Change(2, "worker", -1, "x:1"), absl::StatusCode::kInvalidArgument);
}

TEST(SpecProtoTest, ABombStopsAtTheSizeItClaims) {
  v1::ClusterDef big;
  big.add_jobs()->set_name(std::string(8 << 20, 'a'));
  ClusterSpec spec;
  ASSERT_THAT(spec.AddJob(std::string(8 << 20, 'a'), {}), IsOk());
  v1::SpecUpdate update = MakeSpecUpdate(spec, 1);
  update.set_uncompressed_size(10);
  ClusterSpec out;
  uint64_t epoch = 0;
  EXPECT_THAT(ApplySpecUpdate(update, &epoch, &out),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("more than the 10 bytes")));
}

TEST(SpecProtoTest, AJobThatComesTwiceIsRefused) {
  v1::ClusterDef def;
  def.add_jobs()->set_name("worker");
  def.add_jobs()->set_name("worker");
  EXPECT_THAT(ClusterSpecFromProto(def),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'worker'")));
  def.Clear();
  def.add_jobs()->set_name("worker");
  (*def.mutable_jobs(0)->mutable_tasks())[-3] = "h:1";
  EXPECT_THAT(ClusterSpecFromProto(def), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace millrace
