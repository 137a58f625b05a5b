#include "core/net/session_tickets.h"

#include <openssl/ssl.h>
#include <stdlib.h>

#include <string>

#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "core/net/openssl.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using UniqueContext = UniqueOpenSsl<SSL_CTX, SSL_CTX_free>;

TEST(SessionTicketsTest, NoServerSendsThemAfterwards) {
  setenv("OPENSSL_CONF", "/dev/null", 1);
  StopSessionTickets();
  StopSessionTickets();
  const UniqueContext context(SSL_CTX_new(TLS_method()));
  ASSERT_NE(context, nullptr);
  EXPECT_EQ(SSL_CTX_get_num_tickets(context.get()), 0U);
}

// What whoever runs the process has set for every TLS connection of it stays.
TEST(SessionTicketsDeathTest, AConfigurationOfTheProcessStays) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";  // a process in which OpenSSL is new
  const auto dir = TempDir::Create("tickets");
  ASSERT_THAT(dir, IsOk());
  const std::string path = dir->path() + "/openssl.cnf";
  ASSERT_THAT(WriteFileAtomic(path,
                              "openssl_conf = a\n[a]\nssl_conf = b\n[b]\n"
                              "system_default = c\n[c]\nMinProtocol = TLSv1.3\n"),
              IsOk());
  EXPECT_EXIT(
      {
        setenv("OPENSSL_CONF", path.c_str(), 1);
        StopSessionTickets();
        const UniqueContext context(SSL_CTX_new(TLS_method()));
        exit(SSL_CTX_get_min_proto_version(context.get()) == TLS1_3_VERSION ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace millrace
