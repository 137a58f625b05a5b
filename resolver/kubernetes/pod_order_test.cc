#include "resolver/kubernetes/pod_order.h"

#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "resolver/kubernetes/client/pod.h"

namespace millrace {
namespace {

using Source = PodOrdinal::Source;

std::optional<PodOrdinal> Of(const std::string& name) { return PodOrdinalOf({.name = name}); }

TEST(PodOrdinalTest, PrefersTheCompletionIndexThenThePodIndexThenTheName) {
  Pod pod{.name = "w-7"};
  EXPECT_EQ(PodOrdinalOf(pod), (PodOrdinal{Source::kName, 7}));
  pod.labels["apps.kubernetes.io/pod-index"] = "5";
  EXPECT_EQ(PodOrdinalOf(pod), (PodOrdinal{Source::kPodIndex, 5}));
  pod.annotations["batch.kubernetes.io/job-completion-index"] = "3";
  EXPECT_EQ(PodOrdinalOf(pod), (PodOrdinal{Source::kCompletionIndex, 3}));
  pod.labels["batch.kubernetes.io/job-completion-index"] = "2";
  EXPECT_EQ(PodOrdinalOf(pod), (PodOrdinal{Source::kCompletionIndex, 2}));
}

TEST(PodOrdinalTest, PassesOverLabelsThatHoldNoIndex) {
  for (const char* text : {"", "x", "-1", "1x", "01", "+1", " 1", "99999999999"}) {
    const Pod pod{.name = "w-7", .labels = {{"apps.kubernetes.io/pod-index", text}}};
    EXPECT_EQ(PodOrdinalOf(pod), (PodOrdinal{Source::kName, 7})) << text;
  }
}

TEST(PodOrdinalTest, TakesOnlyANumberThatIsTheLastPartOfTheName) {
  EXPECT_EQ(Of("train-worker-0"), (PodOrdinal{Source::kName, 0}));
  EXPECT_EQ(Of("w-2147483647"), (PodOrdinal{Source::kName, 2147483647}));
  for (const char* name :
       {"", "w", "w1", "1", "-1", "w-", "w-1a", "w-01", "w-2147483648", "w-1-x"}) {
    EXPECT_EQ(Of(name), std::nullopt) << name;
  }
}

TEST(PodOrdinalTest, IgnoresNamesThatEndAtRandom) {
  for (const char* label :
       {"pod-template-hash", "controller-uid", "batch.kubernetes.io/controller-uid"}) {
    EXPECT_EQ(PodOrdinalOf({.name = "web-5d4f8-24567", .labels = {{label, "x"}}}), std::nullopt);
  }
  // The label that selects TensorFlow's pods says nothing of their names.
  EXPECT_EQ(PodOrdinalOf({.name = "worker-3", .labels = {{"job-name", "tensorflow"}}}),
            (PodOrdinal{Source::kName, 3}));
}

}  // namespace
}  // namespace millrace
