#include "core/net/loopback.h"

#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(LoopbackTest, AddressesOfThisHostAreLoopback) {
  for (const char* host : {"localhost", "::1", "[::1]", "127.0.0.1", "127.255.1.2"}) {
    EXPECT_TRUE(IsLoopbackHost(host)) << host;
  }
}

TEST(LoopbackTest, ANameThatBeginsLikeOneIsNot) {
  for (const char* host : {"127.evil.example", "127.0.0.1.evil.example", "127.", "127.1", "",
                           "10.0.0.1", "localhost.evil.example", "0.0.0.0", "::", "::127.0.0.1"}) {
    EXPECT_FALSE(IsLoopbackHost(host)) << host;
  }
}

}  // namespace
}  // namespace millrace
