#include "core/coordinator/state/kv_store.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kNow = absl::Hours(1);

std::vector<KvStore::Completion> Set(KvStore& kv, const std::string& key,
                                     const std::string& value) {
  std::vector<KvStore::Completion> woken;
  EXPECT_THAT(kv.Set(key, value, &woken), IsOk());
  return woken;
}

TEST(KvStoreTest, GetReturnsWhatSetStored) {
  KvStore kv;
  EXPECT_THAT(*kv.Get("k", absl::ZeroDuration(), {}, kNow), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(Set(kv, "k", "a"), IsEmpty());
  Set(kv, "k", "b");
  EXPECT_THAT(*kv.Get("k", absl::ZeroDuration(), {}, kNow), IsOkAndHolds("b"));
  EXPECT_THAT(kv.Delete("k"), IsOkAndHolds("b"));
  EXPECT_THAT(kv.Delete("k"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(kv.total_bytes(), 0u);
}

TEST(KvStoreTest, SetAndAddWakeEveryoneWhoWaits) {
  KvStore kv;
  EXPECT_FALSE(kv.Get("k", absl::Seconds(5), {1, 1}, kNow).has_value());
  EXPECT_FALSE(kv.Get("k", absl::InfiniteDuration(), {2, 1}, kNow).has_value());
  EXPECT_FALSE(kv.Get("n", absl::Seconds(5), {1, 2}, kNow).has_value());
  std::vector<KvStore::Completion> woken = Set(kv, "k", "v");
  ASSERT_EQ(woken.size(), 2u);
  EXPECT_EQ(woken[0].waiter, (KvStore::Waiter{1, 1}));
  EXPECT_THAT(woken[0].result, IsOkAndHolds("v"));
  EXPECT_EQ(woken[1].waiter, (KvStore::Waiter{2, 1}));
  woken.clear();
  EXPECT_THAT(kv.Add("n", 5, &woken), IsOkAndHolds("5"));
  ASSERT_EQ(woken.size(), 1u);
  EXPECT_THAT(woken[0].result, IsOkAndHolds("5"));
  EXPECT_EQ(kv.waits(), 0u);
  EXPECT_EQ(kv.NextDeadline(), absl::InfiniteDuration());
}

TEST(KvStoreTest, AWaitEndsAtItsDeadline) {
  KvStore kv;
  EXPECT_FALSE(kv.Get("k", absl::Seconds(5), {1, 1}, kNow).has_value());
  EXPECT_EQ(kv.NextDeadline(), kNow + absl::Seconds(5));
  EXPECT_THAT(kv.Expire(kNow + absl::Seconds(4)), IsEmpty());
  std::vector<KvStore::Completion> ended = kv.Expire(kNow + absl::Seconds(5));
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_THAT(ended[0].result, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                        HasSubstr("'k' was not set within 5s")));
  EXPECT_EQ(kv.total_bytes(), 0u);
}

TEST(KvStoreTest, TheWaitsOfAnOwnerAreDroppedTogether) {
  KvStore kv;
  EXPECT_FALSE(kv.Get("k", absl::Seconds(5), {1, 1}, kNow).has_value());
  EXPECT_FALSE(kv.Get("k", absl::Seconds(5), {1, 2}, kNow).has_value());
  EXPECT_FALSE(kv.Get("k", absl::Seconds(5), {2, 1}, kNow).has_value());
  kv.DropOwner(1);
  EXPECT_EQ(kv.waits(), 1u);
  EXPECT_EQ(Set(kv, "k", "v").size(), 1u);
}

TEST(KvStoreTest, ARepeatedGetReplacesItsWait) {
  KvStore kv;
  EXPECT_FALSE(kv.Get("k", absl::Seconds(5), {1, 1}, kNow).has_value());
  EXPECT_FALSE(kv.Get("k", absl::Seconds(9), {1, 1}, kNow).has_value());
  EXPECT_EQ(kv.waits(), 1u);
  EXPECT_EQ(kv.NextDeadline(), kNow + absl::Seconds(9));
}

TEST(KvStoreTest, AddCountsAndRefusesWhatIsNoCounter) {
  KvStore kv;
  std::vector<KvStore::Completion> woken;
  EXPECT_THAT(kv.Add("n", 2, &woken), IsOkAndHolds("2"));
  EXPECT_THAT(kv.Add("n", -5, &woken), IsOkAndHolds("-3"));
  Set(kv, "t", "text");
  EXPECT_THAT(kv.Add("t", 1, &woken), StatusIs(absl::StatusCode::kInvalidArgument));
  Set(kv, "max", "9223372036854775807");
  EXPECT_THAT(kv.Add("max", 1, &woken), StatusIs(absl::StatusCode::kOutOfRange));
}

TEST(KvStoreTest, SizesAreBounded) {
  KvStore kv(/*max_total_bytes=*/100);
  std::vector<KvStore::Completion> woken;
  EXPECT_THAT(kv.Set("", "v", &woken), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(kv.Set(std::string(1025, 'k'), "v", &woken),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(kv.Set("k", std::string((1 << 20) + 1, 'v'), &woken),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(kv.Set("k", std::string(99, 'v'), &woken), IsOk());
  EXPECT_THAT(kv.Set("l", "", &woken), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(*kv.Get("l", absl::Seconds(1), {1, 1}, kNow),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(kv.Set("k", "", &woken), IsOk());  // replaced: its bytes count no more
  EXPECT_EQ(kv.total_bytes(), 1u);
  EXPECT_THAT(kv.Add("", 1, &woken), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(kv.Delete(""), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(*kv.Get("", absl::Seconds(1), {1, 1}, kNow),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace millrace
