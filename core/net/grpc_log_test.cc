#include "core/net/grpc_log.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>

#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(GrpcLogTest, APeersBytesAreEscapedCutAndLimited) {
  grpc_init();  // reads GRPC_VERBOSITY
  LogGrpcHere("no agreement");
  SilenceGrpc();  // the first call counts
  ::testing::internal::CaptureStderr();
  gpr_log(GPR_ERROR, "header \x1b]52;c;Zm9v\x07 is bad\n2024-01-01 E forged line");
  gpr_log(GPR_ERROR, "Handshake failed: unknown CA");
  gpr_log(GPR_ERROR, "%s", std::string(1 << 20, 'x').c_str());
  for (int i = 0; i < 10'000; ++i) gpr_log(GPR_ERROR, "the same again");
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\x07")),
                          Not(HasSubstr("\n2024-01-01 E forged"))));
  EXPECT_THAT(text,
              HasSubstr("gRPC: header \\x1b]52;c;Zm9v\\x07 is bad\\n2024-01-01 E forged line\n"));
  EXPECT_THAT(text, HasSubstr("no agreement (Handshake failed: unknown CA)\n"));
  EXPECT_LT(text.size(), 100'000u);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 1000);
  grpc_shutdown();
}

}  // namespace
}  // namespace millrace
