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

TEST(NaturalCompareTest, ComparesNumbersByValue) {
  const char* const ascending[] = {"",
                                   "0",
                                   "2",
                                   "10",
                                   "a",
                                   "a-2-x",
                                   "a-10",
                                   "a-10-x",
                                   "a2",
                                   "a10",
                                   "a10b",
                                   "a10c",
                                   "b",
                                   "b1c2",
                                   "b1c10",
                                   "b2c1",
                                   "b99999999999999999999998",
                                   "b99999999999999999999999"};
  for (const auto* a = std::begin(ascending); a != std::end(ascending); ++a) {
    for (const auto* b = std::begin(ascending); b != std::end(ascending); ++b) {
      EXPECT_EQ(NaturalCompare(*a, *b), (a - b) <=> 0) << *a << " and " << *b;
    }
  }
}

TEST(NaturalCompareTest, TellsApartWhatDiffersOnlyInZeros) {
  EXPECT_TRUE(NaturalCompare("a01", "a1") < 0);
  EXPECT_TRUE(NaturalCompare("a1", "a01") > 0);
  EXPECT_TRUE(NaturalCompare("a01", "a2") < 0);
  EXPECT_TRUE(NaturalCompare("a01", "a01") == 0);
}

}  // namespace
}  // namespace millrace
