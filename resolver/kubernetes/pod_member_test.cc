#include "resolver/kubernetes/pod_member.h"

#include <string>

#include "gtest/gtest.h"
#include "millrace/pod_port.h"
#include "resolver/kubernetes/client/pod.h"
#include "resolver/kubernetes/pod_order.h"

namespace millrace {
namespace {

Pod Running() {
  return {.name = "w-1",
          .namespace_name = "ml",
          .uid = "4f",
          .phase = "Running",
          .host_ip = "192.168.0.7",
          .pod_ip = "10.1.0.4",
          .ports = {{"grpc", 7000}}};
}

TEST(PodMemberTest, KeepsWhatASpecNeeds) {
  Pod pod = Running();
  pod.accelerators = {{"GPU", 2}};
  const PodMember expected{.name = "w-1",
                           .namespace_name = "ml",
                           .uid = "4f",
                           .address = "10.1.0.4:8470",
                           .ordinal = PodOrdinal{PodOrdinal::Source::kName, 1},
                           .accelerators = {{"GPU", 2}}};
  EXPECT_TRUE(MakePodMember(pod, {}) == expected);
}

TEST(PodMemberTest, HasItsAddressAsTheRulesSay) {
  Pod pod = Running();
  EXPECT_EQ(MakePodMember(pod, {.port = PodPort::Container("grpc")}).address, "10.1.0.4:7000");
  EXPECT_EQ(MakePodMember(pod, {.address = PodAddress::kHostIp}).address, "192.168.0.7:8470");
  pod.hostname = "w-1";
  pod.subdomain = "workers";
  EXPECT_EQ(MakePodMember(pod, {.address = PodAddress::kDns}).address,
            "w-1.workers.ml.svc.cluster.local:8470");
  EXPECT_EQ(MakePodMember(pod, {.address = PodAddress::kDns, .cluster_domain = ""}).address,
            "w-1.workers.ml.svc:8470");
  pod.pod_ip = "fd00::4";
  EXPECT_EQ(MakePodMember(pod, {}).address, "[fd00::4]:8470");
}

TEST(PodMemberTest, SaysWhyAPodIsNotThere) {
  const auto expect = [](const Pod& pod, const PodMemberRules& rules, const std::string& absence) {
    const PodMember member = MakePodMember(pod, rules);
    EXPECT_EQ(member.absence, absence);
    EXPECT_EQ(member.address, "");
    EXPECT_FALSE(member.gone);
  };
  Pod pod = Running();
  pod.phase = "Pending";
  expect(pod, {}, "is Pending");
  pod.phase = "";
  expect(pod, {}, "has no phase yet");
  pod = Running();
  expect(pod, {.require_ready = true}, "is not Ready");
  expect(pod, {.port = PodPort::Container("http")}, "has no port: no container port is named http");
  expect(pod, {.port = PodPort::Annotation("p")}, "has no port: there is no annotation p");
  expect(pod, {.address = PodAddress::kDns},
         "has no name in DNS: its spec sets no hostname or no subdomain");
  pod.host_ip = "";
  expect(pod, {.address = PodAddress::kHostIp}, "has no host IP yet");
  pod.pod_ip = "";
  expect(pod, {}, "has no IP yet");
  pod = Running();
  pod.ready = true;
  EXPECT_EQ(MakePodMember(pod, {.require_ready = true}).absence, "");
}

TEST(PodMemberTest, IsGoneWhenItHasEndedOrIsBeingDeleted) {
  for (const char* phase : {"Succeeded", "Failed"}) {
    Pod pod = Running();
    pod.phase = phase;
    EXPECT_TRUE(MakePodMember(pod, {}).gone) << phase;
    EXPECT_EQ(MakePodMember(pod, {}).address, "");
  }
  Pod pod = Running();
  pod.terminating = true;
  EXPECT_TRUE(MakePodMember(pod, {}).gone);
  EXPECT_EQ(MakePodMember(pod, {}).address, "");
  pod.phase = "Unknown";
  pod.terminating = false;
  EXPECT_FALSE(MakePodMember(pod, {}).gone);
}

TEST(PodMemberTest, IsKnownByItsNameWhereThereIsNoUid) {
  Pod pod = Running();
  pod.uid = "";
  EXPECT_EQ(MakePodMember(pod, {}).uid, "ml/w-1");
}

}  // namespace
}  // namespace millrace
