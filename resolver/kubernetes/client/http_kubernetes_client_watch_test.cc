// HttpKubernetesClient::WatchPods().

#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "resolver/http/loopback_server.h"
#include "resolver/kubernetes/client/http_kubernetes_client_fixture.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Peer = LoopbackServer::Peer;
using Request = LoopbackServer::Request;

class WatchTest : public HttpKubernetesClientTest {};

TEST_F(WatchTest, EventsComeAsTheyAre) {
  Serve([](const Request&, Peer& peer) {
    peer.BeginChunks();
    // Cut where chunks happen to be cut.
    const std::string all = absl::StrCat(
        EventJson("ADDED", PodJson("a", "6")), EventJson("MODIFIED", PodJson("a", "7")),
        EventJson("BOOKMARK", R"({"kind":"Pod","metadata":{"resourceVersion":"8"},"spec":{}})"),
        "\n", EventJson("DELETED", PodJson("a", "9")));
    for (size_t i = 0; i < all.size(); i += 100) peer.Chunk(all.substr(i, 100));
    peer.EndChunks();
  });
  std::vector<std::string> events;
  EXPECT_THAT(Watch(&events, {.namespace_name = "tf", .label_selector = "a=b"}), IsOk());
  EXPECT_THAT(events, ElementsAre("BOOKMARK  5", "ADDED a 6", "MODIFIED a 7", "BOOKMARK  8",
                                  "DELETED a 9"));
  const std::string target = server_->requests().at(0).target;
  EXPECT_THAT(target, StartsWith("/api/v1/namespaces/tf/pods?watch=1&allowWatchBookmarks=true"));
  EXPECT_THAT(target, HasSubstr("&resourceVersion=5"));
  EXPECT_THAT(target, HasSubstr("&labelSelector=a%3Db"));
}

TEST_F(WatchTest, AsksToEndAfterARandomTime) {
  Serve([](const Request&, Peer& peer) {
    peer.BeginChunks();
    peer.EndChunks();
  });
  for (int i = 0; i < 8; ++i) {
    std::vector<std::string> events;
    ASSERT_THAT(Watch(&events), IsOk());
  }
  for (const Request& request : server_->requests()) {
    const std::vector<std::string> parts = absl::StrSplit(request.target, "timeoutSeconds=");
    int seconds = 0;
    ASSERT_TRUE(absl::SimpleAtoi(parts.at(1).substr(0, parts.at(1).find('&')), &seconds));
    EXPECT_GE(seconds, 300);
    EXPECT_LT(seconds, 600);
  }
}

TEST_F(WatchTest, AnEventIsDeliveredAtOnce) {
  Notification accepted;
  Notification seen;
  Serve([&](const Request&, Peer& peer) {
    peer.BeginChunks();
    EXPECT_TRUE(accepted.WaitForNotificationWithTimeout(kLong));  // before any event
    peer.Chunk(EventJson("ADDED", PodJson("a", "6")));
    EXPECT_TRUE(seen.WaitForNotificationWithTimeout(kLong));
    peer.EndChunks();
  });
  EXPECT_THAT(
      Client()->WatchPods({}, "5",
                          [&](PodEvent event) {
                            (event.type == PodEvent::Type::kBookmark ? accepted : seen).Notify();
                            return absl::OkStatus();
                          },
                          {}),
      IsOk());
}

TEST_F(WatchTest, TooOldInAllItsForms) {
  Serve([](const Request& request, Peer& peer) {
    switch (request.number) {
      case 1:
        return peer.Answer(410, StatusJson(410, "Gone", "too old resource version"));
      case 2:
        peer.BeginChunks();
        peer.Chunk(EventJson("ADDED", PodJson("a", "6")));
        peer.Chunk(
            EventJson("ERROR", StatusJson(410, "Expired", "too old resource version: 5 (9)")));
        return peer.EndChunks();
      default:
        peer.BeginChunks();
        peer.Chunk(
            "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"reason\":\"Expired\"}}\n");
        return peer.WaitForEnd();
    }
  });
  for (int i = 0; i < 3; ++i) {
    std::vector<std::string> events;
    EXPECT_THAT(Watch(&events), StatusIs(absl::StatusCode::kOutOfRange)) << i;
  }
}

TEST_F(WatchTest, OtherErrorEvents) {
  std::string event;
  Serve([&](const Request&, Peer& peer) {
    peer.BeginChunks();
    peer.Chunk(event);
    peer.WaitForEnd();
  });
  const auto expect = [&](const std::string& text, absl::StatusCode code, const std::string& part) {
    event = text;
    std::vector<std::string> events;
    EXPECT_THAT(Watch(&events), StatusIs(code, HasSubstr(part))) << text;
  };
  expect(EventJson("ERROR", StatusJson(500, "InternalError", "etcd went away")),
         absl::StatusCode::kUnavailable, "(500 InternalError): etcd went away");
  expect(EventJson("ERROR", "{}"), absl::StatusCode::kUnavailable, "(500 )");
  expect("nonsense\n", absl::StatusCode::kDataLoss, "is broken: not JSON");
  expect("{\"type\":\"ADDED\"}\n", absl::StatusCode::kDataLoss, "field \"object\" is missing");
  expect(EventJson("ADDED", "{\"metadata\":{}}"), absl::StatusCode::kDataLoss, "metadata.name");
  expect(EventJson("BOOKMARK", "{}"), absl::StatusCode::kDataLoss, "\"metadata\" is missing");
  expect(EventJson("SURPRISE", PodJson("a")), absl::StatusCode::kDataLoss, "SURPRISE");
}

TEST_F(WatchTest, ACutStreamIsUnavailableAndIsNotResumedHere) {
  Serve([](const Request& request, Peer& peer) {
    peer.BeginChunks();
    peer.Chunk(EventJson("ADDED", PodJson("a", "6")));
    if (request.number == 1) return peer.Close();
    if (request.number == 2) return peer.Reset();
    peer.Chunk("{\"type\":\"MODI");
    peer.EndChunks();
  });
  for (int i = 0; i < 3; ++i) {
    std::vector<std::string> events;
    EXPECT_THAT(Watch(&events), StatusIs(absl::StatusCode::kUnavailable)) << i;
    EXPECT_THAT(events, ElementsAre("BOOKMARK  5", "ADDED a 6"));
  }
  EXPECT_EQ(server_->requests().size(), 3u);
}

TEST_F(WatchTest, ASilentStreamIsGivenUp) {
  Serve([](const Request& request, Peer& peer) {
    if (request.number == 1) {
      peer.BeginChunks();
      peer.Chunk(EventJson("ADDED", PodJson("a", "6")));
    }
    peer.WaitForEnd();
  });
  options_.watch_silence = absl::Milliseconds(300);
  options_.watch_begin_timeout = absl::Milliseconds(200);
  std::vector<std::string> events;
  EXPECT_THAT(Watch(&events),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("nothing came for 300ms")));
  EXPECT_THAT(Watch(&events), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                       HasSubstr("has not answered within 200ms")));
}

TEST_F(WatchTest, AnEventOverTheLimitNamesIt) {
  Serve([](const Request&, Peer& peer) {
    peer.BeginChunks();
    while (peer.open()) peer.Chunk(std::string(1 << 16, 'x'));
  });
  options_.max_event_bytes = 1 << 20;
  std::vector<std::string> events;
  EXPECT_THAT(Watch(&events), StatusIs(absl::StatusCode::kResourceExhausted,
                                       HasSubstr("max_event_bytes = 1048576")));
}

TEST_F(WatchTest, TheCallersErrorIsReturnedAsItIs) {
  Serve([](const Request&, Peer& peer) {
    peer.BeginChunks();
    peer.Chunk(EventJson("ADDED", PodJson("a", "6")));
    peer.WaitForEnd();
  });
  EXPECT_THAT(Client()->WatchPods({}, "5",
                                  [](const PodEvent& event) {
                                    return event.pod.name.empty() ? absl::OkStatus()
                                                                  : absl::AbortedError("enough");
                                  },
                                  {}),
              StatusIs(absl::StatusCode::kAborted, "enough"));
}

TEST_F(WatchTest, AStopEndsIt) {
  std::stop_source stop;
  Serve([&](const Request&, Peer& peer) {
    peer.BeginChunks();
    peer.WaitForEnd();
  });
  EXPECT_THAT(Client()->WatchPods(
                  {}, "5",
                  [&](const PodEvent&) {
                    stop.request_stop();
                    return absl::OkStatus();
                  },
                  stop.get_token()),
              StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(WatchTest, ABusyServerIsAskedAgainBeforeItBegins) {
  Serve([](const Request& request, Peer& peer) {
    if (request.number < 3) return peer.Answer(503, "starting");
    peer.BeginChunks();
    peer.EndChunks();
  });
  std::vector<std::string> events;
  EXPECT_THAT(Watch(&events), IsOk());
  EXPECT_THAT(events, ElementsAre("BOOKMARK  5"));
}

// The whole way from files to an answer.

}  // namespace
}  // namespace millrace
