#include "resolver/kubernetes/client/service_account.h"

#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ServiceAccountTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1", 1);
    setenv("KUBERNETES_SERVICE_PORT", "443", 1);
  }

  void Write(const std::string& name, const std::string& text) const {
    ASSERT_THAT(WriteFileAtomic(JoinPath(dir_.path(), name), text), IsOk());
  }
  absl::StatusOr<ServiceAccount> Load() const {
    return LoadServiceAccount({.folder = dir_.path()});
  }

  const TempDir dir_ = *TempDir::Create("account");
};

auto NotInAPod(const std::string& a, const std::string& b = "") {
  return StatusIs(absl::StatusCode::kFailedPrecondition, AllOf(HasSubstr(a), HasSubstr(b)));
}

TEST_F(ServiceAccountTest, APodHasAllOfIt) {
  Write("token", "t");
  Write("ca.crt", "CA");
  Write("namespace", "training\n");
  const auto account = Load();
  ASSERT_THAT(account, IsOk());
  EXPECT_EQ(account->server, "https://10.96.0.1:443");
  EXPECT_EQ(account->namespace_name, "training");
  EXPECT_EQ(account->tls.ca_file, JoinPath(dir_.path(), "ca.crt"));
  EXPECT_EQ(account->credentials.token_file, JoinPath(dir_.path(), "token"));
  EXPECT_TRUE(HasServiceAccount({.folder = dir_.path()}));

  setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
  EXPECT_EQ(Load()->server, "https://[fd00::1]:443");
}

TEST_F(ServiceAccountTest, WithoutANamespaceFileItIsDefault) {
  Write("token", "t");
  Write("ca.crt", "CA");
  EXPECT_EQ(Load()->namespace_name, "default");
}

TEST_F(ServiceAccountTest, OutsideAPodTheVariableIsNamed) {
  unsetenv("KUBERNETES_SERVICE_HOST");
  EXPECT_THAT(Load(), NotInAPod("does not run in a Kubernetes pod", "KUBERNETES_SERVICE_HOST"));
  EXPECT_FALSE(HasServiceAccount({.folder = dir_.path()}));
  setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1", 1);
  setenv("KUBERNETES_SERVICE_PORT", "tcp://10.96.0.1:443", 1);
  EXPECT_THAT(Load(), NotInAPod("KUBERNETES_SERVICE_PORT must be a port"));
}

TEST_F(ServiceAccountTest, APodWithoutATokenSaysWhatToDo) {
  Write("ca.crt", "CA");
  EXPECT_THAT(Load(), NotInAPod("token cannot be read", "automountServiceAccountToken"));
  EXPECT_FALSE(HasServiceAccount({.folder = dir_.path()}));
}

}  // namespace
}  // namespace millrace
