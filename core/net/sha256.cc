#include "core/net/sha256.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/unique_fd.h"

namespace millrace {
namespace {

class Digest {
 public:
  Digest() : context_(EVP_MD_CTX_new()) {
    MILLRACE_CHECK(context_ != nullptr &&
                   EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1)
        << "SHA-256 is not available";
  }

  void Update(absl::string_view bytes) {
    MILLRACE_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
  }

  std::string Hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    MILLRACE_CHECK(EVP_DigestFinal_ex(context_.get(), digest, &size) == 1 && size == 32);
    return absl::BytesToHexString({reinterpret_cast<const char*>(digest), size});
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

}  // namespace

std::string Sha256Hex(absl::string_view bytes) {
  Digest digest;
  digest.Update(bytes);
  return digest.Hex();
}

absl::StatusOr<std::string> Sha256HexOfFile(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  Digest digest;
  std::vector<char> buffer(size_t{256} << 10);
  for (;;) {
    const ssize_t got = read(fd.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
    if (got == 0) return digest.Hex();
    digest.Update({buffer.data(), static_cast<size_t>(got)});
  }
}

}  // namespace millrace
