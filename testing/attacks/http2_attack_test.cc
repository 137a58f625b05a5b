// HTTP/2 from strangers: gRPC 1.51 copies an unfinished HPACK string again for each CONTINUATION
// frame (CVE-2023-33953), so nobody without a certificate of the cluster may come so far.

#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "core/base/unique_fd.h"
#include "core/coordinator/server/certificate_authority.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/attacks/attacked_cluster.h"

namespace millrace::attacks {
namespace {

using ::testing::IsEmpty;

constexpr size_t kFramePayload = 16384;
constexpr size_t kAttackBytes = 10'000'000;

std::string Frame(char type, int stream, absl::string_view payload) {
  std::string frame;
  for (const int shift : {16, 8, 0}) frame += static_cast<char>(payload.size() >> shift & 0xff);
  frame += type;
  frame += '\0';  // no flags: the header block goes on
  for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>(stream >> shift & 0xff);
  frame.append(payload.data(), payload.size());
  return frame;
}

// A header whose value is announced with kAttackBytes and a byte more, in frames.
std::string UnfinishedHeader() {
  std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(4, 0, "");
  std::string block(
      "\0\x01"
      "a\x7f",
      4);
  for (size_t rest = kAttackBytes + 1 - 127;; rest >>= 7) {
    block += static_cast<char>((rest & 0x7f) | (rest >= 0x80 ? 0x80 : 0));
    if (rest < 0x80) break;
  }
  bytes += Frame(1, 1, block);
  for (size_t sent = 0; sent < kAttackBytes; sent += kFramePayload) {
    bytes += Frame(9, 1, std::string(kFramePayload, 'x'));
  }
  return bytes;
}

struct SslDeleter {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

// A TLS connection that believes any server and shows what it is told to.
class TlsConnection {
 public:
  // `identity_pem`: a certificate with its key; empty: none.
  TlsConnection(const std::string& address, const std::string& identity_pem)
      : fd_(Connect(address, "")), context_(SSL_CTX_new(TLS_client_method())) {
    const timeval patience{.tv_sec = absl::ToInt64Seconds(kPatience), .tv_usec = 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (!identity_pem.empty()) {
      const auto bio = [&] {
        return std::unique_ptr<BIO, int (*)(BIO*)>(
            BIO_new_mem_buf(identity_pem.data(), static_cast<int>(identity_pem.size())), BIO_free);
      };
      X509* certificate = PEM_read_bio_X509(bio().get(), nullptr, nullptr, nullptr);
      EVP_PKEY* key = PEM_read_bio_PrivateKey(bio().get(), nullptr, nullptr, nullptr);
      EXPECT_EQ(SSL_CTX_use_certificate(context_.get(), certificate), 1);
      EXPECT_EQ(SSL_CTX_use_PrivateKey(context_.get(), key), 1);
      X509_free(certificate);
      EVP_PKEY_free(key);
    }
    SSL_CTX_set_app_data(context_.get(), this);
    SSL_CTX_set_session_cache_mode(context_.get(), SSL_SESS_CACHE_CLIENT);
    SSL_CTX_sess_set_new_cb(context_.get(), [](SSL* ssl, SSL_SESSION*) {
      ++static_cast<TlsConnection*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)))->tickets_;
      return 0;  // not kept
    });
    const unsigned char h2[] = "\x02h2";
    SSL_CTX_set_alpn_protos(context_.get(), h2, 3);
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), fd_.get());
  }

  // What the server says over the finished TLS connection to `bytes`, at most `count` bytes of it.
  std::string Talk(const std::string& bytes, size_t count) {
    std::string answer;
    if (SSL_connect(ssl_.get()) != 1) return answer;
    for (size_t sent = 0; sent < bytes.size();) {
      const int n = SSL_write(ssl_.get(), bytes.data() + sent,
                              static_cast<int>(std::min(bytes.size() - sent, kFramePayload)));
      if (n <= 0) break;  // it was closed meanwhile
      sent += static_cast<size_t>(n);
    }
    char buffer[4096];
    while (answer.size() < count) {
      const int n = SSL_read(ssl_.get(), buffer, sizeof(buffer));
      if (n <= 0) break;
      answer.append(buffer, static_cast<size_t>(n));
    }
    return answer;
  }

  // Session tickets that have come.
  int tickets() const { return tickets_; }
  // Certificates that the server has sent.
  int certificates() const { return sk_X509_num(SSL_get_peer_cert_chain(ssl_.get())); }

 private:
  int tickets_ = 0;
  const UniqueFd fd_;
  std::unique_ptr<SSL_CTX, SslDeleter> context_;
  std::unique_ptr<SSL, SslDeleter> ssl_;
};

class Http2AttackTest : public ::testing::Test {
 protected:
  Http2AttackTest() : dir_(*TempDir::Create("http2")) {
    AttackedCluster::SetEnvironment(dir_.path());
    signal(SIGPIPE, SIG_IGN);
  }

  const TempDir dir_;
};

TEST_F(Http2AttackTest, WithoutACertificateNobodyGetsAFrame) {
  const auto cluster = AttackedCluster::Start();
  ASSERT_THAT(cluster, IsOk());
  for (int i = 0; i < 2; ++i) {
    TlsConnection stranger(cluster->file().address, "");
    EXPECT_THAT(stranger.Talk(UnfinishedHeader(), 1), IsEmpty());
  }
  EXPECT_THAT(cluster->Look(), IsOk());
}

TEST_F(Http2AttackTest, WithACertificateOfAnotherClusterNobodyGetsAFrame) {
  const auto cluster = AttackedCluster::Start();
  ASSERT_THAT(cluster, IsOk());
  // One that says of itself the same.
  const auto ca = CertificateAuthority::Create({.cluster_id = cluster->file().cluster_id});
  ASSERT_THAT(ca, IsOk());
  const auto identity = (*ca)->MakeClient("viewer");
  ASSERT_THAT(identity, IsOk());
  TlsConnection stranger(cluster->file().address, identity->ToPem());
  EXPECT_THAT(stranger.Talk(UnfinishedHeader(), 1), IsEmpty());
  EXPECT_THAT(cluster->Look(), IsOk());
}

// What the two tests above look for is there for a member.
TEST_F(Http2AttackTest, AMemberGetsHttp2) {
  const auto cluster = AttackedCluster::Start();
  ASSERT_THAT(cluster, IsOk());
  TlsConnection member(cluster->file().address, cluster->file().identity_pem);
  EXPECT_THAT(member.Talk("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(4, 0, ""), 9),
              ::testing::Not(IsEmpty()));
  // They would have come before: two more signed and encrypted messages for each agent that joins.
  EXPECT_EQ(member.tickets(), 0);
  // Not its CA's, which the server would look for and verify in each handshake.
  EXPECT_EQ(member.certificates(), 1);
}

}  // namespace
}  // namespace millrace::attacks
