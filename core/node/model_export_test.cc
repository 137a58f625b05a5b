#include "core/node/model_export.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ModelExportTest : public testing::Test {
 protected:
  ModelExportTest() : dir_(*TempDir::Create("model_export")) {}

  std::string Path(const std::string& name) const { return JoinPath(dir_.path(), name); }
  // Names in the directory `name`.
  std::set<std::string> Names(const std::string& name = "") const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(Path(name))) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }
  static absl::Status WriteWeights(const std::string& directory, const std::string& contents) {
    return WriteFileAtomic(JoinPath(directory, "weights"), contents);
  }
  absl::Status Export(const std::string& path, const std::string& contents) const {
    return ExportDirectory(
        path, [&](const std::string& directory) { return WriteWeights(directory, contents); });
  }

  const TempDir dir_;
};

TEST_F(ModelExportTest, WritesTheFirstModelAndItsParents) {
  ASSERT_THAT(Export(Path("a/b/model"), "one"), IsOk());
  EXPECT_THAT(ReadFile(Path("a/b/model/weights")), IsOkAndHolds("one"));
  EXPECT_THAT(Names("a/b"), ElementsAre("model"));
}

TEST_F(ModelExportTest, WritesBesideThePathWhichDoesNotExistMeanwhile) {
  ASSERT_THAT(ExportDirectory(Path("model"),
                              [&](const std::string& directory) {
                                EXPECT_EQ(fs::path(directory).parent_path(), dir_.path());
                                EXPECT_TRUE(fs::is_directory(directory));
                                EXPECT_FALSE(fs::exists(Path("model")));
                                return absl::OkStatus();
                              }),
              IsOk());
  EXPECT_THAT(Names(), ElementsAre("model"));
}

TEST_F(ModelExportTest, ReplacesAModelWhichStaysWholeMeanwhile) {
  ASSERT_THAT(Export(Path("model"), "one"), IsOk());
  ASSERT_THAT(WriteFileAtomic(Path("model/extra"), "old"), IsOk());
  ASSERT_THAT(ExportDirectory(Path("model"),
                              [&](const std::string& directory) {
                                EXPECT_THAT(ReadFile(Path("model/weights")), IsOkAndHolds("one"));
                                return WriteWeights(directory, "two");
                              }),
              IsOk());
  EXPECT_THAT(ReadFile(Path("model/weights")), IsOkAndHolds("two"));
  EXPECT_THAT(Names("model"), ElementsAre("weights"));
  EXPECT_THAT(Names(), ElementsAre("model"));
}

TEST_F(ModelExportTest, ReplacesAFileAndASymbolicLinkButNotWhatItPointsAt) {
  ASSERT_THAT(WriteFileAtomic(Path("file"), "x"), IsOk());
  ASSERT_THAT(Export(Path("file"), "one"), IsOk());
  EXPECT_THAT(ReadFile(Path("file/weights")), IsOkAndHolds("one"));

  fs::create_directory_symlink(Path("file"), Path("latest"));
  ASSERT_THAT(Export(Path("latest"), "two"), IsOk());
  EXPECT_FALSE(fs::is_symlink(Path("latest")));
  EXPECT_THAT(ReadFile(Path("latest/weights")), IsOkAndHolds("two"));
  EXPECT_THAT(ReadFile(Path("file/weights")), IsOkAndHolds("one"));
  EXPECT_THAT(Names(), ElementsAre("file", "latest"));
}

TEST_F(ModelExportTest, LeavesNothingBehindWhenTheWriterFails) {
  const auto fail = [](const std::string& directory) {
    EXPECT_THAT(WriteWeights(directory, "half"), IsOk());
    return absl::DataLossError("no more weights");
  };
  EXPECT_THAT(ExportDirectory(Path("model"), fail),
              StatusIs(absl::StatusCode::kDataLoss, "no more weights"));
  EXPECT_THAT(Names(), IsEmpty());

  ASSERT_THAT(Export(Path("model"), "one"), IsOk());
  EXPECT_THAT(ExportDirectory(Path("model"), fail), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(ReadFile(Path("model/weights")), IsOkAndHolds("one"));
  EXPECT_THAT(Names(), ElementsAre("model"));
}

TEST_F(ModelExportTest, FailsWhenTheWriterRemovedTheDirectory) {
  EXPECT_THAT(ExportDirectory(Path("model"),
                              [](const std::string& directory) {
                                fs::remove_all(directory);
                                return absl::OkStatus();
                              }),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("exporting a model")));
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(ModelExportTest, CopesWithLinksAndPipesInTheModel) {
  ASSERT_THAT(ExportDirectory(Path("model"),
                              [](const std::string& directory) {
                                fs::create_symlink("/nowhere", JoinPath(directory, "link"));
                                // Opening it would wait for a writer.
                                EXPECT_EQ(::mkfifo(JoinPath(directory, "pipe").c_str(), 0600), 0);
                                fs::create_directories(JoinPath(directory, "deep/er"));
                                return WriteWeights(JoinPath(directory, "deep/er"), "one");
                              }),
              IsOk());
  EXPECT_THAT(ReadFile(Path("model/deep/er/weights")), IsOkAndHolds("one"));
}

TEST_F(ModelExportTest, UnderstandsFileUrlsAndSlashesAtTheEnd) {
  for (const std::string& path :
       {absl::StrCat("file://", Path("model")), absl::StrCat("file:", Path("model")),
        absl::StrCat(Path("model"), "//"), absl::StrCat(Path("x"), "/../model/."),
        absl::StrCat("file://", Path("model"), "/")}) {
    ASSERT_THAT(Export(path, path), IsOk()) << path;
    EXPECT_THAT(ReadFile(Path("model/weights")), IsOkAndHolds(path));
    EXPECT_THAT(Names(), ElementsAre("model")) << path;
  }
}

TEST_F(ModelExportTest, RefusesOtherFileSystemsAndRelativePathsBeforeItWrites) {
  const auto never = [](const std::string&) {
    ADD_FAILURE() << "write was called";
    return absl::OkStatus();
  };
  for (const char* path : {"hdfs://nn/model", "s3a://bucket/model", "model", "./model", "",
                           "file://host/model", "file:model"}) {
    EXPECT_THAT(ExportDirectory(path, never),
                StatusIs(absl::StatusCode::kUnimplemented,
                         absl::StrCat("exporting a model to ", path,
                                      ": only local file systems can be written; write it in the "
                                      "program, on the chief")));
  }
  for (const char* path : {"/", "file:///", "/tmp/.."}) {
    EXPECT_THAT(ExportDirectory(path, never), StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

TEST_F(ModelExportTest, NamesThePlaceThatCannotBeMade) {
  ASSERT_THAT(WriteFileAtomic(Path("file"), "x"), IsOk());
  EXPECT_THAT(Export(Path("file/model"), "one").message(), HasSubstr(Path("file/model")));
  EXPECT_THAT(ReadFile(Path("file")), IsOkAndHolds("x"));
}

// What file systems without an atomic exchange get.
TEST_F(ModelExportTest, RenamesInTwoStepsWhereThereIsNoExchange) {
  using model_export_internal::TakeNameByRename;
  const auto stage = [this](const std::string& contents) {
    fs::create_directory(Path("staged"));
    EXPECT_THAT(WriteWeights(Path("staged"), contents), IsOk());
    return Path("staged");
  };
  ASSERT_THAT(TakeNameByRename(stage("one"), Path("model")), IsOk());
  EXPECT_THAT(Names(), ElementsAre("model"));

  ASSERT_THAT(TakeNameByRename(stage("two"), Path("model")), IsOk());
  EXPECT_THAT(ReadFile(Path("model/weights")), IsOkAndHolds("two"));
  EXPECT_THAT(ReadFile(Path("staged/weights")), IsOkAndHolds("one"));
  EXPECT_THAT(Names(), ElementsAre("model", "staged"));

  ASSERT_THAT(WriteFileAtomic(Path("file"), "x"), IsOk());
  ASSERT_THAT(TakeNameByRename(Path("staged"), Path("file")), IsOk());
  EXPECT_THAT(ReadFile(Path("file/weights")), IsOkAndHolds("one"));
  EXPECT_THAT(ReadFile(Path("staged")), IsOkAndHolds("x"));

  EXPECT_THAT(TakeNameByRename(Path("nothing"), Path("other")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(Path("other"))));
  // The model stays if what should replace it is not there.
  EXPECT_THAT(TakeNameByRename(Path("nothing"), Path("model")),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(ReadFile(Path("model/weights")), IsOkAndHolds("two"));
}

}  // namespace
}  // namespace millrace
