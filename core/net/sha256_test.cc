#include "core/net/sha256.h"

#include <string>

#include "absl/status/status.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(Sha256Test, MatchesThePublishedVectors) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, OfAFileIsThatOfItsContents) {
  const auto dir = TempDir::Create();
  ASSERT_THAT(dir, IsOk());
  const std::string path = JoinPath(dir->path(), "f");
  const std::string contents(1000000, 'a');
  ASSERT_THAT(WriteFileAtomic(path, contents), IsOk());
  EXPECT_THAT(Sha256HexOfFile(path), IsOkAndHolds(Sha256Hex(contents)));
  EXPECT_THAT(Sha256HexOfFile(path + ".absent"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(Sha256HexOfFile(dir->path()), testing::Not(IsOk()));
}

}  // namespace
}  // namespace millrace
