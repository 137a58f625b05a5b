#include "core/net/local_interfaces.h"

#include <vector>

#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using local_interfaces_internal::Resolve;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<LocalInterface> kInterfaces = {
    {"lo", "127.0.0.1"}, {"eth0", "192.168.1.7"}, {"ib0", "10.5.0.7"}, {"eth0", "fd00::7"}};

TEST(AdvertisedHostTest, AnInterfaceOrANetworkMeansItsFirstAddress) {
  EXPECT_THAT(Resolve("eth0", kInterfaces), IsOkAndHolds("192.168.1.7"));
  EXPECT_THAT(Resolve("10.0.0.0/8", kInterfaces), IsOkAndHolds("10.5.0.7"));
  EXPECT_THAT(Resolve("192.168.1.7/32", kInterfaces), IsOkAndHolds("192.168.1.7"));
  EXPECT_THAT(Resolve("192.168.0.0/15", kInterfaces), IsOkAndHolds("192.168.1.7"));
  EXPECT_THAT(Resolve("fd00::/8", kInterfaces), IsOkAndHolds("fd00::7"));
  EXPECT_THAT(Resolve("0.0.0.0/0", kInterfaces), IsOkAndHolds("127.0.0.1"));
}

TEST(AdvertisedHostTest, HostNamesAndAddressesStayAsTheyAre) {
  for (const char* host : {"worker-3", "host.example", "203.0.113.9", "::1", "br", "ibm7x"}) {
    EXPECT_THAT(Resolve(host, kInterfaces), IsOkAndHolds(host));
  }
}

TEST(AdvertisedHostTest, WhatMatchesNothingListsWhatThereIs) {
  for (const char* text : {"172.16.0.0/12", "eth7", "ib3", "2001:db8::/32"}) {
    EXPECT_THAT(Resolve(text, kInterfaces),
                StatusIs(absl::StatusCode::kNotFound,
                         AllOf(HasSubstr(text), HasSubstr("192.168.1.7 (eth0), 10.5.0.7 (ib0)"))));
  }
}

TEST(AdvertisedHostTest, WhatIsNeitherIsRefused) {
  for (const char* text :
       {"", "10.0.0.0/33", "10.0.0.0/", "/8", "fd00::/129", "a/8", "h:80", "a b", "10.0.0.0/-1"}) {
    EXPECT_THAT(Resolve(text, kInterfaces), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
    EXPECT_THAT(CheckAdvertisedHost(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

TEST(AdvertisedHostTest, ThisHostHasALoopback) {
  EXPECT_THAT(ResolveAdvertisedHost("127.0.0.0/8"), IsOkAndHolds("127.0.0.1"));
  EXPECT_THAT(ResolveAdvertisedHost("lo"), IsOkAndHolds("127.0.0.1"));
}

}  // namespace
}  // namespace millrace
