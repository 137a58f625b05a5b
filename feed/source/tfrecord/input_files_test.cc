#include "feed/source/tfrecord/input_files.h"

#include <sys/stat.h>

#include <string>

#include "absl/status/status.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class InputFilesTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return JoinPath(dir_.path(), name); }
  void Put(const std::string& name) const { EXPECT_THAT(WriteFileAtomic(Path(name), ""), IsOk()); }

  TempDir dir_ = *TempDir::Create("input-files");
};

TEST_F(InputFilesTest, AFolderIsItsFilesOfDataInTheOrderOfTheirNames) {
  for (const char* name : {"part-1", "part-0", "_SUCCESS", ".part-0.crc", "part-10"}) Put(name);
  ASSERT_EQ(mkdir(Path("folder").c_str(), 0700), 0);
  EXPECT_THAT(FindInputFiles({dir_.path()}),
              IsOkAndHolds(ElementsAre(Path("part-0"), Path("part-1"), Path("part-10"))));
}

TEST_F(InputFilesTest, APatternIsWhatItFinds) {
  for (const char* name : {"b.tfrecord", "a.tfrecord", "a.csv", "_b.tfrecord"}) Put(name);
  EXPECT_THAT(FindInputFiles({Path("*.tfrecord")}),
              IsOkAndHolds(ElementsAre(Path("a.tfrecord"), Path("b.tfrecord"))));
  EXPECT_THAT(FindInputFiles({Path("[b].*"), Path("a.?sv")}),
              IsOkAndHolds(ElementsAre(Path("b.tfrecord"), Path("a.csv"))));
}

TEST_F(InputFilesTest, AFileIsItselfWhateverItsName) {
  for (const char* name : {"_hidden", "a[1].tfrecord", "a1.tfrecord"}) Put(name);
  EXPECT_THAT(FindInputFiles({Path("a[1].tfrecord"), Path("_hidden")}),
              IsOkAndHolds(ElementsAre(Path("a[1].tfrecord"), Path("_hidden"))));
}

TEST_F(InputFilesTest, WhatIsNotThereIsNamed) {
  EXPECT_THAT(FindInputFiles({Path("nowhere")}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("nowhere")));
  EXPECT_THAT(FindInputFiles({Path("*.tfrecord")}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("*.tfrecord")));
  EXPECT_THAT(FindInputFiles({dir_.path()}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no file of data")));
}

}  // namespace
}  // namespace millrace
