// Calls a fuzz target with every file of the folders that are its arguments: what once was wrong
// stays right, with any compiler.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/file.h"
#include "testing/fuzz/fuzz.h"

namespace {

// In memory of exactly its size, so that ASan sees every byte read behind it.
void Replay(const std::string& text) {
  const std::unique_ptr<char[]> exact(new char[text.size()]);
  if (!text.empty()) std::memcpy(exact.get(), text.data(), text.size());
  millrace::Fuzz({exact.get(), text.size()});
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(argv[i], error)) {
      paths.push_back(entry.path().string());
    }
    if (error) {
      std::fprintf(stderr, "%s: %s\n", argv[i], error.message().c_str());
      return 1;
    }
  }
  if (paths.empty()) {
    std::fprintf(stderr, "usage: %s FOLDER...; no inputs were found\n", argv[0]);
    return 1;
  }
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    const absl::StatusOr<std::string> text = millrace::ReadFile(path);
    if (!text.ok()) {
      std::fprintf(stderr, "%s\n", text.status().ToString().c_str());
      return 1;
    }
    std::fprintf(stderr, "%s\n", path.c_str());  // the last one said is the one that is wrong
    Replay(*text);
  }
  std::printf("%zu inputs\n", paths.size());
}
