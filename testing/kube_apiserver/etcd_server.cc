#include "testing/kube_apiserver/etcd_server.h"

#include <signal.h>

#include <stop_token>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "millrace/status_macros.h"
#include "resolver/http/http_client.h"
#include "testing/eventually.h"
#include "testing/kube_apiserver/programs.h"

namespace millrace {

std::optional<std::string> EtcdServer::Unavailable() { return KubeProgramUnavailable("etcd"); }

absl::StatusOr<std::unique_ptr<EtcdServer>> EtcdServer::Start(const Options& options) {
  if (const auto why = Unavailable()) return absl::FailedPreconditionError(*why);
  MILLRACE_ASSIGN_OR_RETURN(TempDir folder, TempDir::Create("etcd"));
  MILLRACE_ASSIGN_OR_RETURN(const int port, FreeLoopbackPort());
  MILLRACE_ASSIGN_OR_RETURN(const int peer_port, FreeLoopbackPort());
  const bool tls = options.pki != nullptr;
  const std::string clients = absl::StrCat(tls ? "https" : "http", "://127.0.0.1:", port);
  const std::string peers = absl::StrCat("http://127.0.0.1:", peer_port);
  const auto file = [&folder](const std::string& name) { return JoinPath(folder.path(), name); };
  std::vector<std::string> argv = {KubeProgramPath("etcd"),
                                   "--data-dir",
                                   file("data"),
                                   "--unsafe-no-fsync",
                                   "--log-level",
                                   "error",
                                   "--bcrypt-cost",
                                   "4",
                                   "--listen-client-urls",
                                   clients,
                                   "--advertise-client-urls",
                                   clients,
                                   "--listen-peer-urls",
                                   peers,
                                   "--initial-advertise-peer-urls",
                                   peers,
                                   "--initial-cluster",
                                   absl::StrCat("default=", peers)};
  if (tls) {
    MILLRACE_ASSIGN_OR_RETURN(const TestPki::Identity server,
                              options.pki->Issue({.common_name = "etcd", .names = {"127.0.0.1"}}));
    // No name of a user: with one etcd would take the certificate for a login.
    MILLRACE_ASSIGN_OR_RETURN(const TestPki::Identity client,
                              options.pki->Issue({.common_name = ""}));
    for (const auto& [name, text] : {std::pair("ca.crt", options.pki->ca_pem()),
                                     {"server.crt", server.certificate_pem},
                                     {"server.key", server.private_key_pem},
                                     {"client.crt", client.certificate_pem},
                                     {"client.key", client.private_key_pem}}) {
      MILLRACE_RETURN_IF_ERROR(WriteFileAtomic(file(name), text));
    }
    argv.insert(argv.end(), {"--cert-file", file("server.crt"), "--key-file", file("server.key"),
                             "--trusted-ca-file", file("ca.crt"), "--client-cert-auth",
                             // With which its gateway turns to itself.
                             "--client-cert-file", file("client.crt"), "--client-key-file",
                             file("client.key")});
  }
  std::unique_ptr<EtcdServer> server(new EtcdServer(std::move(folder), clients, std::move(argv)));
  MILLRACE_RETURN_IF_ERROR(server->StartAgain());
  return server;
}

std::string EtcdServer::File(const std::string& name) const {
  return JoinPath(folder_.path(), name);
}

absl::Status EtcdServer::StartAgain() {
  MILLRACE_ASSIGN_OR_RETURN(process_, ChildProcess::Start(argv_));
  absl::Status last;
  const auto answers = [&] {
    last = Call("/v3/maintenance/status", Json::object()).status();
    return last.ok();
  };
  return Eventually(answers) ? absl::OkStatus() : last;
}

void EtcdServer::Stop() {
  process_->Kill(SIGKILL);
  process_.reset();
}

absl::StatusOr<Json> EtcdServer::Call(const std::string& path, const Json& body,
                                      const std::string& token) const {
  HttpClient::Options options;
  HttpRequest request = {.method = "POST", .url = url_ + path, .body = DumpJson(body)};
  if (url_.substr(0, 6) == "https:") {
    options.tls.ca_file = File("ca.crt");
    MILLRACE_ASSIGN_OR_RETURN(request.client_certificate_pem, ReadFile(File("client.crt")));
    MILLRACE_ASSIGN_OR_RETURN(request.client_key_pem, ReadFile(File("client.key")));
  }
  if (!token.empty()) request.headers.emplace_back("Authorization", token);
  MILLRACE_ASSIGN_OR_RETURN(const auto http, HttpClient::Create(std::move(options)));
  MILLRACE_ASSIGN_OR_RETURN(const HttpResponse response, http->Send(request, std::stop_token()));
  if (response.status == 200) return ParseJson(response.body);
  return absl::UnknownError(absl::StrCat(path, ": status ", response.status, ": ", response.body));
}

absl::Status EtcdServer::Put(const std::string& key, const std::string& value) const {
  return Call("/v3/kv/put",
              {{"key", absl::Base64Escape(key)}, {"value", absl::Base64Escape(value)}})
      .status();
}

absl::Status EtcdServer::Delete(const std::string& key) const {
  return Call("/v3/kv/deleterange", {{"key", absl::Base64Escape(key)}}).status();
}

}  // namespace millrace
