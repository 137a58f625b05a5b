#include "core/base/status_code.h"

#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(StatusCodeTest, EveryErrorCodeComesBackFromItsName) {
  for (int value = 1; value <= 16; ++value) {
    const absl::StatusCode code = static_cast<absl::StatusCode>(value);
    EXPECT_EQ(StatusCodeFromName(absl::StatusCodeToString(code)), code) << value;
  }
}

TEST(StatusCodeTest, WhatIsNoErrorNameIsUnknown) {
  for (const char* name : {"", "OK", "data_loss", "DATA LOSS", "17"}) {
    EXPECT_EQ(StatusCodeFromName(name), absl::StatusCode::kUnknown) << name;
  }
}

}  // namespace
}  // namespace millrace
