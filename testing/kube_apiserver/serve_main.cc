// A real API server for tests in other languages (api_server.py): writes one line of JSON to stdout
// and serves until its stdin ends.
//
//   {"url": "https://127.0.0.1:PORT", "ca": "PEM", "token": "..."}   token: of a superuser
//   {"unavailable": "why"}                                           and ends

#include <unistd.h>

#include <cstdio>
#include <string>

#include "core/base/json.h"
#include "testing/kube_apiserver/kube_api_server.h"

namespace millrace {
namespace {

void Say(const Json& line) {
  std::printf("%s\n", DumpJson(line).c_str());
  std::fflush(stdout);
}

int Main() {
  if (const auto why = KubeApiServer::Unavailable()) {
    Say({{"unavailable", *why}});
    return 0;
  }
  const auto server = KubeApiServer::Start({.service_accounts = true});
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", std::string(server.status().message()).c_str());
    return 1;
  }
  Say({{"url", (*server)->url()},
       {"ca", (*server)->pki().ca_pem()},
       {"token", KubeApiServer::kAdminToken}});
  char byte;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}

}  // namespace
}  // namespace millrace

int main() { return millrace::Main(); }
