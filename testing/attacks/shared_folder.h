// File: testing/attacks/shared_folder.h
//
// A folder that other users can reach and write to.
//
//   SharedFolder folder;
//   EXPECT_THAT(other.Run({"/bin/mv", "-f", folder.Path("his"), folder.Path("program")}), IsOk());

#ifndef TESTING_ATTACKS_SHARED_FOLDER_H_
#define TESTING_ATTACKS_SHARED_FOLDER_H_

#include <string>

#include "absl/strings/string_view.h"

namespace millrace {

// Under /tmp: a folder of Bazel's is often behind one that only its owner may search. The
// destructor removes it.
class SharedFolder {
 public:
  // `mode` 01777: as /tmp itself. 0777: a folder in which others can replace what is not theirs.
  explicit SharedFolder(unsigned mode = 0777);
  ~SharedFolder();
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string Path(absl::string_view name) const;

 private:
  std::string path_;
};

}  // namespace millrace

#endif  // TESTING_ATTACKS_SHARED_FOLDER_H_
