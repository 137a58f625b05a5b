#include "core/coordinator/state/sidecar.h"

#include <string>
#include <vector>

#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

std::string Beside(const Sidecar& sidecar, const std::vector<NodeRole>& roles) {
  v1::NodeSpec spec;
  const absl::Status added = AddSidecars({sidecar}, roles, &spec);
  if (!added.ok()) return std::string(added.message());
  return NodeRole{spec.sidecars(0).job_name(), spec.sidecars(0).task_index()}.ToString();
}

TEST(SidecarTest, StandsBesideTheChiefOrElseTheFirstWorker) {
  const Sidecar board = TensorBoardSidecar();
  EXPECT_EQ(Beside(board, {{"ps", 0}, {"chief", 0}, {"worker", 0}}), "chief:0");
  EXPECT_EQ(Beside(board, {{"ps", 0}, {"master", 0}, {"worker", 0}}), "master:0");
  EXPECT_EQ(Beside(board, {{"ps", 0}, {"worker", 0}, {"worker", 1}}), "worker:0");
}

TEST(SidecarTest, StandsWhereItIsPut) {
  Sidecar sidecar{.name = "exporter", .node = "worker:1", .program = "exporter"};
  EXPECT_EQ(Beside(sidecar, {{"worker", 0}, {"worker", 1}}), "worker:1");
  EXPECT_THAT(Beside(sidecar, {{"worker", 0}}), HasSubstr("no worker:1"));
}

TEST(SidecarTest, RefusesWhatCannotBeStarted) {
  const std::vector<NodeRole> roles = {{"worker", 0}};
  EXPECT_THAT(Beside({.name = "Tensor Board", .program = "x"}, roles), HasSubstr("is no name"));
  EXPECT_THAT(Beside({.name = "a"}, roles), HasSubstr("has no program"));
  EXPECT_THAT(Beside({.name = "a", .program = "x", .args = {std::string("a\0b", 3)}}, roles),
              HasSubstr("zero byte"));
  EXPECT_THAT(Beside({.name = "a", .program = "x", .env = {{"A=B", ""}}}, roles),
              HasSubstr("cannot be in an environment"));
  v1::NodeSpec spec;
  EXPECT_THAT(
      AddSidecars({{.name = "a", .program = "x"}, {.name = "a", .program = "y"}}, roles, &spec),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("twice")));
}

}  // namespace
}  // namespace millrace
