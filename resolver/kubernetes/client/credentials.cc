#include "resolver/kubernetes/client/credentials.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/file.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;
// A credential that ends so soon is asked for anew: the request has to get there.
constexpr absl::Duration kBeforeExpiry = absl::Seconds(10);

absl::StatusOr<std::string> ReadSecret(const std::string& path, absl::string_view what) {
  absl::StatusOr<std::string> text = ReadFile(path, kMaxFileBytes);
  if (!text.ok()) {
    return absl::UnauthenticatedError(
        absl::StrCat("the ", what, " cannot be read: ", text.status().message()));
  }
  if (absl::StripAsciiWhitespace(*text).empty()) {
    return absl::UnauthenticatedError(absl::StrCat("the ", what, " ", path, " is empty"));
  }
  return text;
}

absl::Status CheckPair(absl::string_view what, const std::string& file, const std::string& text) {
  if (file.empty() || text.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("give the ", what, " as a file or as text, not both"));
}

}  // namespace

CredentialSource::CredentialSource(CredentialOptions options) : options_(std::move(options)) {}

absl::StatusOr<std::unique_ptr<CredentialSource>> CredentialSource::Create(
    CredentialOptions options) {
  MILLRACE_RETURN_IF_ERROR(CheckPair("token", options.token_file, options.token));
  MILLRACE_RETURN_IF_ERROR(CheckPair("client certificate", options.client_certificate_file,
                                     options.client_certificate_pem));
  MILLRACE_RETURN_IF_ERROR(
      CheckPair("client key", options.client_key_file, options.client_key_pem));
  const bool has_certificate =
      !options.client_certificate_file.empty() || !options.client_certificate_pem.empty();
  const bool has_key = !options.client_key_file.empty() || !options.client_key_pem.empty();
  if (has_certificate != has_key) {
    return absl::InvalidArgumentError(
        "a client certificate needs its key, and a client key its certificate");
  }
  return std::unique_ptr<CredentialSource>(new CredentialSource(std::move(options)));
}

absl::StatusOr<Credentials> CredentialSource::Get(absl::Duration timeout, std::stop_token stop) {
  Credentials credentials;
  if (options_.exec.has_value()) {
    MILLRACE_ASSIGN_OR_RETURN(credentials, FromPlugin(timeout, std::move(stop)));
  }
  credentials.headers = options_.headers;
  if (!options_.token.empty()) credentials.token = options_.token;
  if (!options_.token_file.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(const std::string token,
                              ReadSecret(options_.token_file, "token file"));
    credentials.token = std::string(absl::StripAsciiWhitespace(token));
  }
  if (!options_.client_certificate_pem.empty()) {
    credentials.client_certificate_pem = options_.client_certificate_pem;
  }
  if (!options_.client_key_pem.empty()) credentials.client_key_pem = options_.client_key_pem;
  if (!options_.client_certificate_file.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(
        credentials.client_certificate_pem,
        ReadSecret(options_.client_certificate_file, "client certificate file"));
  }
  if (!options_.client_key_file.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(credentials.client_key_pem,
                              ReadSecret(options_.client_key_file, "client key file"));
  }
  // The token becomes a header: a line end would be a way to send others.
  if (!std::all_of(credentials.token.begin(), credentials.token.end(), absl::ascii_isgraph)) {
    return absl::UnauthenticatedError(
        absl::StrCat("the token of ", Describe(), " holds blanks or control characters"));
  }
  return credentials;
}

absl::StatusOr<Credentials> CredentialSource::FromPlugin(absl::Duration timeout,
                                                         std::stop_token stop) {
  const absl::Duration deadline = RealClock()->SteadyNow() + timeout;
  const std::stop_callback on_stop(stop, [this] {
    MutexLock lock(&mu_);
    plugin_done_.SignalAll();
  });
  absl::StatusOr<ExecCredential> answer = absl::InternalError("not asked");
  {
    MutexLock lock(&mu_);
    for (;;) {
      if (kept_.has_value() && options_.clock->Now() + kBeforeExpiry < kept_->expires) {
        return Credentials{.token = kept_->token,
                           .client_certificate_pem = kept_->client_certificate_pem,
                           .client_key_pem = kept_->client_key_pem,
                           .headers = {}};
      }
      if (!plugin_runs_) break;
      if (stop.stop_requested()) return absl::CancelledError("stopped");
      const absl::Duration left = deadline - RealClock()->SteadyNow();
      if (left <= absl::ZeroDuration()) {
        return absl::DeadlineExceededError(
            absl::StrCat(Describe(), " has not ended within ", absl::FormatDuration(timeout)));
      }
      plugin_done_.WaitWithTimeout(&mu_, left);
    }
    plugin_runs_ = true;
  }
  answer = RunExecPlugin(*options_.exec, deadline - RealClock()->SteadyNow(), stop);
  MutexLock lock(&mu_);
  plugin_runs_ = false;
  plugin_done_.SignalAll();
  kept_.reset();
  MILLRACE_RETURN_IF_ERROR(answer);
  kept_ = *answer;
  return Credentials{.token = answer->token,
                     .client_certificate_pem = answer->client_certificate_pem,
                     .client_key_pem = answer->client_key_pem,
                     .headers = {}};
}

void CredentialSource::Refuse(const Credentials& refused) {
  MutexLock lock(&mu_);
  if (kept_.has_value() && kept_->token == refused.token &&
      kept_->client_certificate_pem == refused.client_certificate_pem) {
    kept_.reset();
  }
}

std::string CredentialSource::Describe() const {
  if (!options_.token_file.empty()) return absl::StrCat("token file ", options_.token_file);
  if (!options_.token.empty()) return "given token";
  if (options_.exec.has_value()) return absl::StrCat("credential plugin ", options_.exec->command);
  if (!options_.client_certificate_file.empty()) {
    return absl::StrCat("client certificate ", options_.client_certificate_file);
  }
  if (!options_.client_certificate_pem.empty()) return "given client certificate";
  return "anonymous";
}

}  // namespace millrace
