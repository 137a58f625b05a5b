#include "core/proto/spec_proto.h"

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::AllOf;
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

// ---- columns ------------------------------------------------------------------------------------

void ExpectSurvivesInColumns(const ClusterSpec& spec) {
  const v1::SpecUpdate update = MakeSpecUpdate(spec, 1, SpecFormat::kColumns);
  EXPECT_TRUE(IsWholeSpec(update));
  EXPECT_TRUE(update.zlib_cluster_def().empty());
  ClusterSpec out = Spec();
  uint64_t epoch = 0;
  ASSERT_THAT(ApplySpecUpdate(update, &epoch, &out), IsOk());
  EXPECT_EQ(out, spec);
  EXPECT_EQ(out.jobs(), spec.jobs());
  EXPECT_EQ(epoch, 1u);
}

TEST(SpecColumnsTest, SpecsSurviveTheRoundTrip) {
  ExpectSurvivesInColumns(ClusterSpec());
  ExpectSurvivesInColumns(Spec());
  ClusterSpec spec = Spec();
  ASSERT_THAT(spec.AddJob("empty", {}), IsOk());
  ASSERT_THAT(spec.AddSparseJob("far", {{0, "h:1"}, {0x7fffffff, "h0:65535"}}), IsOk());
  ASSERT_THAT(spec.AddJob("backwards", {"h7:1", "h1:1", "h0:1", "h7:2"}), IsOk());
  ExpectSurvivesInColumns(spec);
}

TEST(SpecColumnsTest, AnAddressIsTheSameTextAgainWhateverItIs) {
  ClusterSpec spec;
  ASSERT_THAT(spec.AddJob("worker", {"",
                                     ":",
                                     ":1",
                                     "h",
                                     "h:",
                                     "h:0",
                                     "h:1",
                                     "h:01",
                                     "h:+1",
                                     "h: 1",
                                     "h:1 ",
                                     "h:-1",
                                     "h:65535",
                                     "h:65536",
                                     "h:4294967297",
                                     "h:99999999999999999999",
                                     "h:x",
                                     "[::1]",
                                     "[::1]:80",
                                     "::1",
                                     "a:b:3",
                                     "h:1:",
                                     std::string("n\0ul:7", 6)}),
              IsOk());
  ExpectSurvivesInColumns(spec);
}

// What 10,000 hosts are each sent of 100,000 nodes is a third of it for ports that nobody can
// guess.
TEST(SpecColumnsTest, ColumnsAreAThirdOfTheBytes) {
  uint64_t random = 1;
  ClusterSpec::TaskList tasks;
  for (int i = 0; i < 20'000; ++i) {
    random = random * 6364136223846793005 + 1442695040888963407;
    tasks.push_back(
        absl::StrCat("10.0.", i / 2560, ".", i / 10 % 256, ":", 32'768 + (random >> 33) % 28'232));
  }
  ClusterSpec spec;
  ASSERT_THAT(spec.AddJob("worker", tasks), IsOk());
  const size_t columns = MakeSpecUpdate(spec, 1, SpecFormat::kColumns).ByteSizeLong();
  EXPECT_LT(columns * 5 / 2, MakeSpecUpdate(spec, 1).ByteSizeLong());
  EXPECT_LT(columns, tasks.size() * 5 / 2);  // bytes
  ExpectSurvivesInColumns(spec);
}

v1::ClusterColumns GoodColumns() {
  ClusterSpec spec;
  EXPECT_THAT(spec.AddJob("worker", {"h0:1", "h1:2"}), IsOk());
  return ClusterSpecToColumns(spec);
}

TEST(SpecColumnsTest, HostileColumnsAreErrors) {
  EXPECT_THAT(ClusterSpecFromColumns(GoodColumns()), IsOk());
  const auto refused = [](absl::FunctionRef<void(v1::ClusterColumns*, v1::JobColumns*)> spoil,
                          absl::string_view why) {
    v1::ClusterColumns columns = GoodColumns();
    spoil(&columns, columns.mutable_jobs(0));
    EXPECT_THAT(ClusterSpecFromColumns(columns),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("job 'worker'"), HasSubstr(why))));
  };
  refused([](auto*, auto* job) { job->add_index_steps(1); }, "not of one length");
  refused([](auto*, auto* job) { job->add_host_steps(0); }, "not of one length");
  refused([](auto*, auto* job) { job->mutable_port_low()->push_back('x'); }, "not of one length");
  refused([](auto*, auto* job) { job->clear_port_high(); }, "not of one length");
  refused([](auto*, auto* job) { job->set_index_steps(1, 0); }, "task 0 after");
  refused([](auto*, auto* job) { job->set_index_steps(1, 0x80000000); }, "task 2147483648 after");
  refused([](auto*, auto* job) { job->set_host_steps(0, -1); }, "on host -1 of 2");
  refused([](auto*, auto* job) { job->set_host_steps(1, 2); }, "on host 2 of 2");
  refused([](auto*, auto* job) { job->set_host_steps(1, 0x7fffffff); }, "of 2");
  refused([](auto* columns, auto*) { columns->clear_hosts(); }, "on host 0 of 0");
  refused([](auto* columns, auto* job) { *columns->add_jobs() = *job; }, "'worker'");
}

// A megabyte of columns could else be made into a terabyte of addresses.
TEST(SpecColumnsTest, NoMoreIsMadeOfColumnsThanASpecMayHold) {
  v1::ClusterColumns columns;
  columns.add_hosts(std::string(1 << 20, 'h'));
  v1::JobColumns* job = columns.add_jobs();
  job->set_name("worker");
  const auto set_tasks = [job](size_t tasks) {
    job->mutable_index_steps()->Resize(static_cast<int>(tasks), 1);
    job->mutable_host_steps()->Resize(static_cast<int>(tasks), 0);
    *job->mutable_port_low() = *job->mutable_port_high() = std::string(tasks, '\1');
  };
  const size_t most = kMaxClusterDefBytes / (1 << 20);
  set_tasks(most);
  EXPECT_THAT(ClusterSpecFromColumns(columns),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("'worker'")));
  set_tasks(most - 1);
  EXPECT_THAT(ClusterSpecFromColumns(columns), IsOk());

  *columns.mutable_hosts(0) = "h";  // nor more tasks than one holds
  set_tasks(kMaxClusterDefBytes / 8);
  EXPECT_THAT(ClusterSpecFromColumns(columns), StatusIs(absl::StatusCode::kResourceExhausted));

  v1::SpecUpdate update = MakeSpecUpdate(Spec(), 2, SpecFormat::kColumns);
  for (size_t size = 1; size < update.zlib_columns().size(); ++size) {
    v1::SpecUpdate cut = update;
    cut.set_zlib_columns(update.zlib_columns().substr(0, size));
    ClusterSpec spec = Spec();
    uint64_t epoch = 1;
    EXPECT_THAT(ApplySpecUpdate(cut, &epoch, &spec), StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_EQ(epoch, 1u);
  }
}

// -------------------------------------------------------------------------------------------------

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
