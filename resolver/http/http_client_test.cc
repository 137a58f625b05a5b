#include "resolver/http/http_client.h"

#include <sys/socket.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "resolver/http/loopback_server.h"
#include "testing/kube_apiserver/test_pki.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Peer = LoopbackServer::Peer;
using Request = LoopbackServer::Request;

// Long enough never to be seen, on whatever machine.
constexpr absl::Duration kLong = absl::Minutes(2);

std::unique_ptr<HttpClient> MakeClient(HttpClient::Options options = {}) {
  auto client = HttpClient::Create(std::move(options));
  EXPECT_THAT(client, IsOk());
  return *std::move(client);
}

std::unique_ptr<LoopbackServer> Serve(LoopbackServer::Handler handler,
                                      const LoopbackServer::Options& options = {}) {
  auto server = LoopbackServer::Start(options, std::move(handler));
  EXPECT_THAT(server, IsOk());
  return *std::move(server);
}

HttpRequest To(const std::string& url) {
  HttpRequest request;
  request.url = url;
  request.timeout = kLong;
  return request;
}

MATCHER_P(FailsWith, failure, "") { return HttpFailureOf(arg.status()) == failure; }

TEST(HttpClientTest, BringsAnAnswerWhateverItsStatus) {
  const auto server = Serve([](const Request& request, Peer& peer) {
    peer.Answer(request.target == "/ok?x=1" ? 200 : 503, request.target, "X-Thing:  a b \r\n");
  });
  const auto client = MakeClient();
  const auto ok = client->Send(To(server->url() + "/ok?x=1"), {});
  ASSERT_THAT(ok, IsOk());
  EXPECT_EQ(ok->status, 200);
  EXPECT_EQ(ok->body, "/ok?x=1");
  EXPECT_EQ(ok->headers.at("x-thing"), "a b");
  const auto failed = client->Send(To(server->url() + "/other"), {});
  ASSERT_THAT(failed, IsOk());
  EXPECT_EQ(failed->status, 503);
  EXPECT_EQ(failed->body, "/other");
}

TEST(HttpClientTest, SendsMethodHeadersAndBody) {
  const auto server = Serve([](const Request&, Peer& peer) { peer.Answer(201, ""); });
  const auto client = MakeClient();
  HttpRequest request = To(server->url() + "/x");
  request.method = "PATCH";
  request.headers = {{"Content-Type", "application/json"}, {"Authorization", "Bearer t"}};
  request.body = "{}";
  ASSERT_THAT(client->Send(request, {}), IsOk());
  const Request seen = server->requests().at(0);
  EXPECT_EQ(seen.method, "PATCH");
  EXPECT_EQ(seen.body, "{}");
  EXPECT_EQ(seen.headers.at("content-type"), "application/json");
  EXPECT_EQ(seen.headers.at("authorization"), "Bearer t");
  EXPECT_EQ(seen.headers.count("expect"), 0u);
  EXPECT_EQ(seen.headers.count("accept-encoding"), 0u);
}

TEST(HttpClientTest, KeepsAConnectionForTheNextRequest) {
  const auto server = Serve([](const Request&, Peer& peer) { peer.Answer(200, "x"); });
  const auto client = MakeClient();
  for (int i = 0; i < 5; ++i) ASSERT_THAT(client->Send(To(server->url()), {}), IsOk());
  EXPECT_EQ(server->connections(), 1);
}

TEST(HttpClientTest, SendsAgainWhenAnIdleConnectionHasEnded) {
  const auto server = Serve([](const Request& request, Peer& peer) {
    if (request.number == 1) {
      peer.Answer(200, "first");
      peer.Close();
    } else {
      peer.Answer(200, "second");
    }
  });
  const auto client = MakeClient();
  ASSERT_THAT(client->Send(To(server->url()), {}), IsOk());
  const auto second = client->Send(To(server->url()), {});
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(second->body, "second");
}

TEST(HttpClientTest, FollowsNoRedirect) {
  const auto server = Serve([](const Request&, Peer& peer) {
    peer.Answer(302, "", "Location: http://127.0.0.1:1/elsewhere\r\n");
  });
  const auto response = MakeClient()->Send(To(server->url()), {});
  ASSERT_THAT(response, IsOk());
  EXPECT_EQ(response->status, 302);
  EXPECT_EQ(response->headers.at("location"), "http://127.0.0.1:1/elsewhere");
}

TEST(HttpClientTest, RefusesWhatCannotBeSent) {
  const auto client = MakeClient();
  const auto invalid = [](const std::string& part) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part));
  };
  EXPECT_THAT(client->Send(To(""), {}), invalid("is no URL"));
  EXPECT_THAT(client->Send(To("http://a b/"), {}), invalid("is no URL"));
  EXPECT_THAT(client->Send(To("http://a/\nX: y"), {}), invalid("is no URL"));
  EXPECT_THAT(client->Send(To("ftp://host/"), {}), invalid("not a URL of http"));
  EXPECT_THAT(client->Send(To("file:///etc/passwd"), {}), invalid("not a URL of http"));
  EXPECT_THAT(client->Send(To("http://user:pass@host/"), {}), invalid("belong into headers"));
  HttpRequest request = To("http://127.0.0.1:1/");
  request.headers = {{"Authorization", "Bearer secret\r\nX: y"}};
  const auto refused = client->Send(request, {});
  EXPECT_THAT(refused, invalid("\"Authorization\" cannot be sent"));
  EXPECT_THAT(refused, Not(invalid("secret")));
  request = To("http://127.0.0.1:1/");
  request.method = "GET /";
  EXPECT_THAT(client->Send(request, {}), invalid("is no HTTP method"));
  request = To("http://127.0.0.1:1/");
  request.client_key_pem = "key";
  EXPECT_THAT(client->Send(request, {}), invalid("needs its key"));
  EXPECT_THAT(HttpClient::Create({.tls = {.ca_file = "a", .ca_pem = "b"}}), invalid("not both"));
  EXPECT_THAT(HttpClient::Create({.tls = {.ca_file = "a", .insecure_skip_verify = true}}),
              invalid("makes no sense"));
}

TEST(HttpClientTest, ErrorsNameTheUrlWithoutItsQuery) {
  const auto refused = MakeClient()->Send(To("http://127.0.0.1:1/api?token=secret#part"), {});
  EXPECT_THAT(refused, FailsWith(HttpFailure::kConnect));
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kUnavailable,
                                AllOf(HasSubstr("GET http://127.0.0.1:1/api: no connection"),
                                      Not(HasSubstr("secret")))));
}

TEST(HttpClientTest, AnUnknownNameIsSaid) {
  // RFC 6761: never resolved.
  const auto unknown = MakeClient()->Send(To("http://nowhere.invalid/"), {});
  EXPECT_THAT(unknown, FailsWith(HttpFailure::kResolve));
  EXPECT_THAT(unknown, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("name is not known")));
}

TEST(HttpClientTest, ATimeoutSaysInWhichStep) {
  const auto server = Serve([](const Request& request, Peer& peer) {
    if (request.target == "/half") peer.Write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
    peer.WaitForEnd();
  });
  const auto client = MakeClient();
  HttpRequest request = To(server->url());
  request.timeout = absl::Milliseconds(200);
  const auto unanswered = client->Send(request, {});
  EXPECT_THAT(unanswered, FailsWith(HttpFailure::kTimeout));
  EXPECT_THAT(unanswered, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                   HasSubstr("the server has not answered within 200ms")));
  request.url += "/half";
  request.timeout = absl::Seconds(2);
  EXPECT_THAT(
      client->Send(request, {}),
      StatusIs(absl::StatusCode::kDeadlineExceeded,
               HasSubstr("not finished within 2s, after 4 bytes of the answer (HTTP 200)")));
  request = To(server->url());
  request.answer_timeout = absl::Milliseconds(100);
  EXPECT_THAT(client->Send(request, {}),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("answered within 100ms")));
}

TEST(HttpClientTest, ASilentServerIsGivenUp) {
  const auto server = Serve([](const Request&, Peer& peer) {
    peer.BeginChunks();
    peer.Chunk("something");
    peer.WaitForEnd();
  });
  HttpRequest request = To(server->url());
  request.silence_timeout = absl::Milliseconds(300);
  const auto silent = MakeClient()->Send(request, {});
  EXPECT_THAT(silent, FailsWith(HttpFailure::kSilent));
  EXPECT_THAT(silent,
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("nothing came for 300ms")));
}

TEST(HttpClientTest, ACutAnswerSaysWhatHadCome) {
  const auto server = Serve([](const Request& request, Peer& peer) {
    if (request.target == "/length") {
      peer.Write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n12345");
    } else if (request.target == "/chunks") {
      peer.BeginChunks();
      peer.Chunk("12345");
    }
    peer.Close();
  });
  const auto client = MakeClient();
  for (const std::string path : {"/length", "/chunks"}) {
    const auto cut = client->Send(To(server->url() + path), {});
    EXPECT_THAT(cut, FailsWith(HttpFailure::kCut)) << path;
    EXPECT_THAT(cut, StatusIs(absl::StatusCode::kUnavailable,
                              HasSubstr("ended after 5 bytes of the answer (HTTP 200)")))
        << path;
  }
  const auto nothing = client->Send(To(server->url() + "/nothing"), {});
  EXPECT_THAT(nothing, FailsWith(HttpFailure::kCut));
  EXPECT_THAT(nothing,
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("ended before an answer came")));
}

TEST(HttpClientTest, AResetIsACut) {
  const auto server = Serve([](const Request&, Peer& peer) {
    peer.BeginChunks();
    peer.Chunk("12345");
    peer.Reset();
  });
  EXPECT_THAT(MakeClient()->Send(To(server->url()), {}), FailsWith(HttpFailure::kCut));
}

TEST(HttpClientTest, HostileSizesAreBounded) {
  const auto server = Serve([](const Request& request, Peer& peer) {
    if (request.target == "/header") {
      peer.Write("HTTP/1.1 200 OK\r\n");
      for (int i = 0; i < 100'000 && peer.open(); ++i) {
        peer.Write(absl::StrCat("X-", i, ": 0123456789012345678901234567890123456789\r\n"));
      }
    } else if (request.target == "/length") {
      peer.Write("HTTP/1.1 200 OK\r\nContent-Length: 999999999999999999\r\n\r\n");
    } else {
      peer.BeginChunks();
    }
    while (peer.open()) peer.Chunk(std::string(1 << 16, 'x'));
  });
  const auto client = MakeClient();
  for (const std::string path : {"/header", "/length", "/chunks"}) {
    HttpRequest request = To(server->url() + path);
    request.max_body_bytes = 1 << 20;
    const auto large = client->Send(request, {});
    EXPECT_THAT(large, FailsWith(HttpFailure::kTooLarge)) << path;
    EXPECT_THAT(large, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("over the limit")))
        << path;
  }
}

TEST(HttpClientTest, WhatIsNoHttpIsDataLoss) {
  const auto server = Serve([](const Request&, Peer& peer) {
    peer.Write("SSH-2.0-OpenSSH_9.2p1\r\n\r\n");
    peer.Close();
  });
  const auto garbage = MakeClient()->Send(To(server->url()), {});
  EXPECT_THAT(garbage, FailsWith(HttpFailure::kProtocol));
  EXPECT_THAT(garbage, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("speaks no HTTP")));
}

TEST(HttpClientTest, StreamsABodyPieceByPiece) {
  Notification first_seen;
  const auto server = Serve([&](const Request&, Peer& peer) {
    peer.BeginChunks();
    peer.Chunk("one");
    // Only after the client has seen the first piece.
    EXPECT_TRUE(first_seen.WaitForNotificationWithTimeout(kLong));
    peer.Chunk("two");
    peer.EndChunks();
  });
  std::vector<std::string> pieces;
  const auto response =
      MakeClient()->Send(To(server->url()), {}, [&](absl::string_view piece) -> absl::Status {
        pieces.emplace_back(piece);
        if (piece == "one") first_seen.Notify();
        return absl::OkStatus();
      });
  ASSERT_THAT(response, IsOk());
  EXPECT_EQ(response->body, "");
  EXPECT_THAT(pieces, ElementsAre("", "one", "two"));
}

TEST(HttpClientTest, TheBodyOfAnErrorIsNotStreamed) {
  const auto server = Serve([](const Request&, Peer& peer) { peer.Answer(410, "gone"); });
  bool called = false;
  const auto response = MakeClient()->Send(To(server->url()), {}, [&](absl::string_view) {
    called = true;
    return absl::OkStatus();
  });
  ASSERT_THAT(response, IsOk());
  EXPECT_EQ(response->body, "gone");
  EXPECT_FALSE(called);
}

TEST(HttpClientTest, AnErrorOfTheCallbackEndsTheRequest) {
  const auto server = Serve([](const Request&, Peer& peer) {
    peer.BeginChunks();
    peer.Chunk("x");
    peer.WaitForEnd();
  });
  EXPECT_THAT(MakeClient()->Send(To(server->url()), {},
                                 [](absl::string_view piece) {
                                   return piece.empty() ? absl::OkStatus()
                                                        : absl::AbortedError("enough");
                                 }),
              StatusIs(absl::StatusCode::kAborted, "enough"));
}

TEST(HttpClientTest, AStopEndsARequestAtOnce) {
  Notification asked;
  const auto server = Serve([&](const Request&, Peer& peer) {
    asked.Notify();
    peer.WaitForEnd();
  });
  const auto client = MakeClient();
  std::stop_source stop;
  Thread stopper("stopper", [&] {
    asked.WaitForNotification();
    stop.request_stop();
  });
  const absl::Duration began = RealClock()->SteadyNow();
  EXPECT_THAT(client->Send(To(server->url()), stop.get_token()),
              StatusIs(absl::StatusCode::kCancelled));
  EXPECT_LT(RealClock()->SteadyNow() - began, kLong / 2);
  EXPECT_THAT(client->Send(To(server->url()), stop.get_token()),
              StatusIs(absl::StatusCode::kCancelled));
}

TEST(HttpClientTest, AServerThatClosesWhileWeSendRaisesNoSignal) {
  const auto pki = *TestPki::Create("ca");
  const auto identity = *pki->Issue({.common_name = "server", .names = {"127.0.0.1"}});
  for (const bool tls : {false, true}) {
    LoopbackServer::Options options;
    if (tls) options = {identity.certificate_pem, identity.private_key_pem, ""};
    // The connection ends with the body unread.
    const auto server = Serve([](const Request&, Peer& peer) { peer.Reset(); }, options);
    const auto client = MakeClient({.tls = {.ca_pem = pki->ca_pem()}});
    HttpRequest request = To(server->url());
    request.method = "POST";
    request.body = std::string(1 << 20, 'x');
    EXPECT_THAT(client->Send(request, {}), FailsWith(HttpFailure::kCut));
  }
}

TEST(HttpClientTest, ThreadsShareAClient) {
  const auto server =
      Serve([](const Request& request, Peer& peer) { peer.Answer(200, request.target); });
  const auto client = MakeClient();
  std::vector<Thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back("sender", [&, t] {
      for (int i = 0; i < 20; ++i) {
        const std::string path = absl::StrCat("/", t, "/", i);
        const auto response = client->Send(To(server->url() + path), {});
        ASSERT_THAT(response, IsOk());
        EXPECT_EQ(response->body, path);
      }
    });
  }
  threads.clear();
  EXPECT_LE(server->connections(), 8 * 20);
}

class TlsTest : public testing::Test {
 protected:
  // A server with a certificate for `names`.
  std::unique_ptr<LoopbackServer> ServeTls(std::vector<std::string> names = {"127.0.0.1"}) {
    const auto identity = *pki_->Issue({.common_name = "server", .names = std::move(names)});
    return Serve([](const Request& request, Peer& peer) { peer.Answer(200, request.subject); },
                 {identity.certificate_pem, identity.private_key_pem, client_ca_});
  }

  const std::unique_ptr<TestPki> pki_ = *TestPki::Create("ca");
  std::string client_ca_;
};

TEST_F(TlsTest, BelievesTheGivenAuthorityAlone) {
  const auto server = ServeTls();
  EXPECT_THAT(MakeClient({.tls = {.ca_pem = pki_->ca_pem()}})->Send(To(server->url()), {}), IsOk());

  const auto other = *TestPki::Create("other");
  const auto wrong = MakeClient({.tls = {.ca_pem = other->ca_pem()}})->Send(To(server->url()), {});
  EXPECT_THAT(wrong, FailsWith(HttpFailure::kTls));
  EXPECT_THAT(wrong,
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("is not signed by the given CA")));
  EXPECT_THAT(MakeClient()->Send(To(server->url()), {}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("signed by a CA of this system")));
  EXPECT_THAT(MakeClient({.tls = {.insecure_skip_verify = true}})->Send(To(server->url()), {}),
              IsOk());
}

TEST_F(TlsTest, ReadsACaFileForEachConnection) {
  const auto server = ServeTls();
  const auto other = *TestPki::Create("other");
  const TempDir dir = *TempDir::Create("http");
  const std::string path = JoinPath(dir.path(), "ca.crt");
  const auto client = MakeClient({.tls = {.ca_file = path}});
  EXPECT_THAT(client->Send(To(server->url()), {}),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr(absl::StrCat("the CA in ", path, " cannot be read"))));
  ASSERT_THAT(WriteFileAtomic(path, "no certificate"), IsOk());
  EXPECT_THAT(client->Send(To(server->url()), {}), FailsWith(HttpFailure::kTls));
  ASSERT_THAT(WriteFileAtomic(path, other->ca_pem()), IsOk());
  EXPECT_THAT(client->Send(To(server->url()), {}),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr(absl::StrCat("is not signed by the CA in ", path))));
  ASSERT_THAT(WriteFileAtomic(path, pki_->ca_pem()), IsOk());
  EXPECT_THAT(client->Send(To(server->url()), {}), IsOk());
}

TEST_F(TlsTest, ChecksTheName) {
  const auto server = ServeTls({"kubernetes.default.svc"});
  const auto wrong = MakeClient({.tls = {.ca_pem = pki_->ca_pem()}})->Send(To(server->url()), {});
  EXPECT_THAT(wrong, FailsWith(HttpFailure::kTls));
  EXPECT_THAT(wrong, StatusIs(absl::StatusCode::kUnavailable,
                              HasSubstr("certificate is not for the name 127.0.0.1")));
  // The name may differ from the address, and the connection still goes to the address.
  const auto client =
      MakeClient({.tls = {.ca_pem = pki_->ca_pem(), .server_name = "kubernetes.default.svc"}});
  ASSERT_THAT(client->Send(To(server->url()), {}), IsOk());
  EXPECT_EQ(server->requests().at(0).headers.at("host"),
            absl::StrCat("127.0.0.1:", server->port()));
  EXPECT_THAT(MakeClient({.tls = {.ca_pem = pki_->ca_pem(), .server_name = "another"}})
                  ->Send(To(server->url()), {}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("is not for the name another")));
}

TEST_F(TlsTest, SaysThatACertificateHasExpiredOrIsNotYetValid) {
  const auto serve = [&](absl::Duration from, absl::Duration until) {
    const auto identity = *pki_->Issue({.common_name = "server",
                                        .names = {"127.0.0.1"},
                                        .valid_from = from,
                                        .valid_until = until});
    return Serve([](const Request&, Peer& peer) { peer.Answer(200, ""); },
                 {identity.certificate_pem, identity.private_key_pem, ""});
  };
  const auto client = MakeClient({.tls = {.ca_pem = pki_->ca_pem()}});
  const auto expired = serve(-absl::Hours(2), -absl::Hours(1));
  EXPECT_THAT(client->Send(To(expired->url()), {}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("has expired")));
  const auto early = serve(absl::Hours(1), absl::Hours(2));
  EXPECT_THAT(client->Send(To(early->url()), {}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("is not valid yet")));
}

TEST_F(TlsTest, ShowsAClientCertificate) {
  client_ca_ = pki_->ca_pem();
  const auto server = ServeTls();
  const auto client = MakeClient({.tls = {.ca_pem = pki_->ca_pem()}});
  const auto without = client->Send(To(server->url()), {});
  EXPECT_THAT(without, FailsWith(HttpFailure::kTls));
  EXPECT_THAT(without, StatusIs(absl::StatusCode::kUnavailable,
                                HasSubstr("the server refused our certificate")));
  // A change of the certificate is a new connection.
  for (const std::string name : {"ann", "bob"}) {
    const auto identity = *pki_->Issue({.common_name = name});
    HttpRequest request = To(server->url());
    request.client_certificate_pem = identity.certificate_pem;
    request.client_key_pem = identity.private_key_pem;
    const auto response = client->Send(request, {});
    ASSERT_THAT(response, IsOk());
    EXPECT_EQ(response->body, name);
  }
  HttpRequest request = To(server->url());
  request.client_certificate_pem = "garbage";
  request.client_key_pem = "garbage";
  EXPECT_THAT(client->Send(request, {}),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("our client certificate or its key cannot be used")));
}

TEST_F(TlsTest, TlsAndPlainTextDoNotMix) {
  const auto server = ServeTls();
  const std::string plain = absl::StrCat("http://127.0.0.1:", server->port());
  EXPECT_FALSE(MakeClient()->Send(To(plain), {}).ok());
  const auto plain_server = Serve([](const Request&, Peer& peer) { peer.Answer(200, ""); });
  HttpRequest request = To(absl::StrCat("https://127.0.0.1:", plain_server->port()));
  request.timeout = absl::Milliseconds(500);  // it waits for the end of a request that never ends
  EXPECT_THAT(MakeClient()->Send(request, {}),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("TLS handshake")));
}

TEST_F(TlsTest, AServerThatNeverShakesHandsIsNoConnection) {
  const auto plain_server = Serve([](const Request&, Peer& peer) { peer.Answer(200, ""); });
  const auto late = MakeClient({.connect_timeout = absl::Milliseconds(300)})
                        ->Send(To(absl::StrCat("https://127.0.0.1:", plain_server->port())), {});
  EXPECT_THAT(late, FailsWith(HttpFailure::kConnect));
  EXPECT_THAT(late, StatusIs(absl::StatusCode::kUnavailable,
                             HasSubstr("the TLS handshake has not ended within 300ms")));
}

class ProxyTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kVariables) {
      const char* value = getenv(name);
      saved_.emplace_back(name, value != nullptr ? value : "");
      unsetenv(name);
    }
  }
  void TearDown() override {
    for (const auto& [name, value] : saved_) {
      if (value.empty()) {
        unsetenv(name.c_str());
      } else {
        setenv(name.c_str(), value.c_str(), 1);
      }
    }
  }

  static constexpr const char* kVariables[] = {"http_proxy",  "HTTP_PROXY", "https_proxy",
                                               "HTTPS_PROXY", "all_proxy",  "ALL_PROXY",
                                               "no_proxy",    "NO_PROXY"};
  std::vector<std::pair<std::string, std::string>> saved_;
};

TEST_F(ProxyTest, IsUsedOnlyIfTheOptionsSaySo) {
  const auto server = Serve([](const Request&, Peer& peer) { peer.Answer(200, "server"); });
  const auto proxy = Serve([](const Request&, Peer& peer) { peer.Answer(200, "proxy"); });
  setenv("http_proxy", proxy->url().c_str(), 1);
  const auto body = [&](HttpClient::Options options, const std::string& url) {
    return MakeClient(std::move(options))->Send(To(url), {}).value_or(HttpResponse()).body;
  };
  EXPECT_EQ(body({}, server->url()), "server");
  EXPECT_EQ(body({.proxy_url = proxy->url()}, server->url()), "proxy");
  // Not for this host.
  EXPECT_EQ(body({.proxy = HttpClient::Proxy::kEnvironment}, server->url()), "server");
  EXPECT_EQ(body({.proxy = HttpClient::Proxy::kEnvironment}, "http://nowhere.invalid/"), "proxy");
  // Who names a proxy means it.
  setenv("no_proxy", "*", 1);
  EXPECT_EQ(body({.proxy_url = proxy->url()}, server->url()), "proxy");
}

TEST_F(ProxyTest, ThatRefusesIsNamed) {
  const auto proxy = Serve([](const Request&, Peer& peer) { peer.Answer(403, "no"); });
  const auto refused =
      MakeClient({.proxy_url = proxy->url()})->Send(To("https://nowhere.invalid/"), {});
  EXPECT_THAT(refused, FailsWith(HttpFailure::kConnect));
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("403")));
}

TEST(HttpFailureTest, OtherErrorsHaveNone) {
  EXPECT_EQ(HttpFailureOf(absl::OkStatus()), HttpFailure::kNone);
  EXPECT_EQ(HttpFailureOf(absl::UnavailableError("x")), HttpFailure::kNone);
}

}  // namespace
}  // namespace millrace
