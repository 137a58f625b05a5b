#include "resolver/http/url.h"

#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(ParseUrlTest, HasItsPartsAndATextWithoutSecrets) {
  const auto url = ParseUrl("https://[::1]/api/v1?token=secret#part");
  ASSERT_THAT(url, IsOk());
  EXPECT_EQ(url->scheme, "https");
  EXPECT_EQ(url->host, "[::1]");
  EXPECT_EQ(url->port, "443");
  EXPECT_EQ(url->text, "https://[::1]:443/api/v1");
}

TEST(WithHostTest, PutsANameOrAnAddressInItsPlace) {
  EXPECT_EQ(WithHost("https://a:6443/x?y=z", "name"), "https://name:6443/x?y=z");
  EXPECT_EQ(WithHost("https://a:6443/x", "::1"), "https://[::1]:6443/x");
}

TEST(UrlEncodeTest, KeepsOnlyUnreservedCharacters) {
  EXPECT_EQ(UrlEncode("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(UrlEncode("job-name in (a,b),tier!=\xc3\xa9"),
            "job-name%20in%20%28a%2Cb%29%2Ctier%21%3D%C3%A9");
}

}  // namespace
}  // namespace millrace
