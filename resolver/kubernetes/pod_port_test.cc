#include "millrace/pod_port.h"

#include <string>

#include "absl/status/status.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "resolver/kubernetes/client/pod.h"

namespace millrace {
namespace {

using testing::HasSubstr;

TEST(PodPortTest, ReadsNumbersNamesAndAnnotations) {
  EXPECT_THAT(PodPort::Parse("8470"), IsOkAndHolds(PodPort::Number(8470)));
  EXPECT_THAT(PodPort::Parse("grpc"), IsOkAndHolds(PodPort::Container("grpc")));
  EXPECT_THAT(PodPort::Parse("http2-tls"), IsOkAndHolds(PodPort::Container("http2-tls")));
  EXPECT_THAT(PodPort::Parse("annotation:example.com/port"),
              IsOkAndHolds(PodPort::Annotation("example.com/port")));
  for (const char* text : {"8470", "grpc", "annotation:example.com/port"}) {
    const absl::StatusOr<PodPort> port = PodPort::Parse(text);
    ASSERT_THAT(port, IsOk());
    EXPECT_EQ(port->ToString(), text);
  }
}

TEST(PodPortTest, RefusesWhatKubernetesCannotHave) {
  for (const char* text :
       {"", "0", "65536", "-1", "80 ", "99999999999999999999", "Grpc", "a--b", "-a", "a-",
        "sixteen-letters-x", "annotation:", "annotation:a b", "a:b", "a/b"}) {
    EXPECT_THAT(PodPort::Parse(text),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is no port: give")))
        << text;
  }
}

TEST(PodPortTest, FindsThePortOfAPod) {
  const Pod pod{.name = "w",
                .annotations = {{"p", "7000"}, {"bad", "70000"}},
                .ports = {{"", 1}, {"grpc", 8470}, {"grpc", 2}}};
  EXPECT_THAT(PodPort::Number(9).Of(pod), IsOkAndHolds(9));
  EXPECT_THAT(PodPort::Container("grpc").Of(pod), IsOkAndHolds(8470));
  EXPECT_THAT(PodPort::Annotation("p").Of(pod), IsOkAndHolds(7000));
  EXPECT_THAT(PodPort::Container("http").Of(pod),
              StatusIs(absl::StatusCode::kNotFound, "no container port is named http"));
  EXPECT_THAT(PodPort::Annotation("q").Of(pod),
              StatusIs(absl::StatusCode::kNotFound, "there is no annotation q"));
  EXPECT_THAT(
      PodPort::Annotation("bad").Of(pod),
      StatusIs(absl::StatusCode::kInvalidArgument, "the annotation bad is no port: \"70000\""));
}

}  // namespace
}  // namespace millrace
