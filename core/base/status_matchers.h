// File: core/base/status_matchers.h
//
// GoogleMock matchers for absl::Status and absl::StatusOr<T>. Test only.
//
// Defines: IsOk(), IsOkAndHolds(m), StatusIs(code), StatusIs(code, message_matcher).
//
//   EXPECT_THAT(spec.TaskAddress("ps", 0), IsOkAndHolds("host:1"));
//   EXPECT_THAT(ParseJson("{"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("offset")));

#ifndef CORE_BASE_STATUS_MATCHERS_H_
#define CORE_BASE_STATUS_MATCHERS_H_

#include <ostream>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"

namespace millrace {
namespace status_matchers_internal {

inline const absl::Status& GetStatus(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& GetStatus(const absl::StatusOr<T>& result) {
  return result.status();
}

class IsOkMatcher {
 public:
  using is_gtest_matcher = void;
  template <typename T>
  bool MatchAndExplain(const T& actual, std::ostream* os) const {
    const absl::Status& status = GetStatus(actual);
    if (!status.ok() && os != nullptr) *os << "whose status is " << status;
    return status.ok();
  }
  void DescribeTo(std::ostream* os) const { *os << "is OK"; }
  void DescribeNegationTo(std::ostream* os) const { *os << "is not OK"; }
};

class StatusIsMatcher {
 public:
  using is_gtest_matcher = void;
  StatusIsMatcher(absl::StatusCode code, testing::Matcher<const std::string&> message)
      : code_(code), message_(std::move(message)) {}
  template <typename T>
  bool MatchAndExplain(const T& actual, std::ostream* os) const {
    const absl::Status& status = GetStatus(actual);
    if (os != nullptr) *os << "whose status is " << status;
    return status.code() == code_ && message_.Matches(std::string(status.message()));
  }
  void DescribeTo(std::ostream* os) const {
    *os << "has code " << absl::StatusCodeToString(code_) << " and a message that ";
    message_.DescribeTo(os);
  }
  void DescribeNegationTo(std::ostream* os) const {
    *os << "has not code " << absl::StatusCodeToString(code_) << " or a message that ";
    message_.DescribeNegationTo(os);
  }

 private:
  absl::StatusCode code_;
  testing::Matcher<const std::string&> message_;
};

template <typename M>
class IsOkAndHoldsMatcher {
 public:
  explicit IsOkAndHoldsMatcher(M inner) : inner_(std::move(inner)) {}

  template <typename StatusOrT>
  operator testing::Matcher<StatusOrT>() const {  // NOLINT(google-explicit-constructor)
    return testing::Matcher<StatusOrT>(new Impl<StatusOrT>(inner_));
  }

 private:
  template <typename StatusOrT>
  class Impl : public testing::MatcherInterface<StatusOrT> {
   public:
    using Value = typename std::remove_cvref_t<StatusOrT>::value_type;
    explicit Impl(const M& inner) : inner_(testing::SafeMatcherCast<const Value&>(inner)) {}

    bool MatchAndExplain(StatusOrT actual, testing::MatchResultListener* listener) const override {
      if (!actual.ok()) {
        *listener << "whose status is " << actual.status();
        return false;
      }
      return testing::ExplainMatchResult(inner_, *actual, listener);
    }
    void DescribeTo(std::ostream* os) const override {
      *os << "is OK and holds a value that ";
      inner_.DescribeTo(os);
    }
    void DescribeNegationTo(std::ostream* os) const override {
      *os << "is not OK or holds a value that ";
      inner_.DescribeNegationTo(os);
    }

   private:
    testing::Matcher<const Value&> inner_;
  };

  M inner_;
};

}  // namespace status_matchers_internal

// Matches an OK Status or StatusOr.
inline status_matchers_internal::IsOkMatcher IsOk() { return {}; }

// Matches a StatusOr that is OK and whose value matches `inner`, a value or a matcher.
template <typename M>
status_matchers_internal::IsOkAndHoldsMatcher<std::decay_t<M>> IsOkAndHolds(M&& inner) {
  return status_matchers_internal::IsOkAndHoldsMatcher<std::decay_t<M>>(std::forward<M>(inner));
}

// Matches a Status or StatusOr with this code and, if given, a message that matches `message`.
inline status_matchers_internal::StatusIsMatcher StatusIs(
    absl::StatusCode code, testing::Matcher<const std::string&> message = testing::_) {
  return {code, std::move(message)};
}

}  // namespace millrace

#endif  // CORE_BASE_STATUS_MATCHERS_H_
