#include "core/launch/agent_secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/random.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/base/unique_fd.h"
#include "core/net/certificate.h"
#include "core/net/openssl.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// Time to hand a new secret to every host.
constexpr absl::Duration kRenewBefore = absl::Hours(24 * 30);
constexpr size_t kMaxFileBytes = size_t{64} << 10;
constexpr size_t kMinTokenBytes = 32;
constexpr size_t kMaxTokenBytes = 4096;
constexpr size_t kMaxNameBytes = 253;

absl::Status CheckSecret(const AgentSecret& secret) {
  const bool visible = std::all_of(secret.token.begin(), secret.token.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
  if (secret.token.size() < kMinTokenBytes || secret.token.size() > kMaxTokenBytes || !visible) {
    return absl::InvalidArgumentError("its token is not 32 to 4096 visible ASCII characters");
  }
  if (!absl::StrContains(secret.certificate_pem, "-----BEGIN CERTIFICATE-----")) {
    return absl::InvalidArgumentError("its certificate is no PEM");
  }
  if (!absl::StrContains(secret.key_pem, "PRIVATE KEY-----")) {
    return absl::InvalidArgumentError("its key is no PEM");
  }
  return absl::OkStatus();
}

std::string DateOf(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d", time, absl::UTCTimeZone());
}

std::string HowToRenew(const SecretPlace& place) {
  return absl::StrCat("`millrace agent-secret ", place.dir.empty() ? "--file " : "--dir ",
                      place.path(), " --replace` makes a new one",
                      place.dir.empty() ? "" : " (--kubernetes: a mounted Secret)",
                      ", which every agent and driver must get");
}

absl::Status CheckTime(const AgentSecret& secret, const SecretPlace& place) {
  const absl::Time now = absl::Now();
  const absl::StatusOr<CertificateValidity> valid = ReadCertificateValidity(secret.certificate_pem);
  if (!valid.ok()) return absl::InvalidArgumentError("its certificate is no certificate");
  if (valid->until < now) {
    return absl::FailedPreconditionError(
        absl::StrCat("its certificate has expired on ", DateOf(valid->until),
                     " (this host's clock says ", DateOf(now), "); ", HowToRenew(place)));
  }
  const std::string clocks = ClockMismatch(secret.certificate_pem, now);
  return clocks.empty() ? absl::OkStatus() : absl::FailedPreconditionError(clocks);
}

absl::StatusOr<std::string> ReadAll(int fd, const std::string& path) {
  std::string text;
  char buffer[4096];
  while (true) {
    const ssize_t n = ::read(fd, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::ErrnoToStatus(errno, path);
    if (n == 0) return text;
    text.append(buffer, static_cast<size_t>(n));
    if (text.size() > kMaxFileBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path, " has more than ", kMaxFileBytes, " bytes: it is no secret"));
    }
  }
}

// One file of a secret. A group may read it: a pod that is not root gets its Secret that way.
absl::StatusOr<std::string> ReadPrivate(const std::string& path) {
  // The file that is looked at is the one that is read. O_NONBLOCK: a pipe must not hold us.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) return absl::ErrnoToStatus(errno, path);
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(path + " is no regular file");
  // Root's: what Kubernetes mounts, and /etc.
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        path, " belongs to user ", info.st_uid, ", who can change it: it must be this user's (",
        ::geteuid(), ") or root's; make a copy if you trust who wrote it"));
  }
  if ((info.st_mode & S_IRWXO) != 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        path,
        " is open to every user of this host; chmod 600 it, or give a Kubernetes Secret "
        "volume the defaultMode 0440"));
  }
  if ((info.st_mode & S_IWGRP) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, " can be changed by its group; chmod 600 it"));
  }
  return ReadAll(fd.get(), path);
}

absl::StatusOr<AgentSecret> ReadFromFile(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, ReadPrivate(path));
  // What the parser says may quote the text.
  const absl::StatusOr<Json> json = ParseJson(text);
  if (!json.ok() || !json->is_object()) return absl::InvalidArgumentError("it is no JSON object");
  AgentSecret secret;
  MILLRACE_ASSIGN_OR_RETURN(secret.token, GetString(*json, "token"));
  MILLRACE_ASSIGN_OR_RETURN(secret.certificate_pem, GetString(*json, "certificate"));
  MILLRACE_ASSIGN_OR_RETURN(secret.key_pem, GetString(*json, "key"));
  return secret;
}

absl::StatusOr<AgentSecret> ReadFromDir(const std::string& dir) {
  AgentSecret secret;
  MILLRACE_ASSIGN_OR_RETURN(secret.token, ReadPrivate(JoinPath(dir, "token")));
  absl::StripAsciiWhitespace(&secret.token);
  MILLRACE_ASSIGN_OR_RETURN(secret.certificate_pem, ReadPrivate(JoinPath(dir, "tls.crt")));
  MILLRACE_ASSIGN_OR_RETURN(secret.key_pem, ReadPrivate(JoinPath(dir, "tls.key")));
  return secret;
}

// A DNS subdomain, as Kubernetes names objects.
absl::Status CheckObjectName(absl::string_view what, absl::string_view name) {
  const auto alphanumeric = [](char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c); };
  const bool ok = !name.empty() && name.size() <= kMaxNameBytes && alphanumeric(name.front()) &&
                  alphanumeric(name.back()) && std::all_of(name.begin(), name.end(), [&](char c) {
                    return alphanumeric(c) || c == '-' || c == '.';
                  });
  if (ok) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " '", EscapeControls(Ellipsize(name, 100)),
                   "' is no name of a Kubernetes object: lower-case letters, digits, '-' and '.'"));
}

}  // namespace

absl::StatusOr<AgentSecret> MakeAgentSecret(absl::Duration validity) {
  MILLRACE_ASSIGN_OR_RETURN(const UniqueKey key, MakeP256Key());
  // Signs itself, and no other: it is the anchor that both sides pin and the leaf that both show.
  const CertificateProfile profile = {
      .common_name = "millrace agent",
      .dns_name = kAgentCertificateName,
      .key_usage = "critical,digitalSignature",
      .extended_key_usage = "serverAuth,clientAuth",
      .constraints = "critical,CA:FALSE",
      .validity = validity,
  };
  MILLRACE_ASSIGN_OR_RETURN(
      const UniqueCertificate certificate,
      MakeCertificate(
          profile, absl::Now(), [&](X509* x509) { return X509_set_pubkey(x509, key.get()) == 1; },
          nullptr, key.get()));
  AgentSecret secret;
  secret.token = RandomHex(32);
  MILLRACE_ASSIGN_OR_RETURN(secret.certificate_pem, CertificatePem(certificate.get()));
  MILLRACE_ASSIGN_OR_RETURN(secret.key_pem, PrivateKeyPem(key.get()));
  return secret;
}

absl::StatusOr<AgentSecret> ReadAgentSecret(const SecretPlace& place) {
  if (place.file.empty() == place.dir.empty()) {
    return absl::InvalidArgumentError(
        "the agents' secret is in one place: a file or a folder; `millrace agent-secret` makes it");
  }
  absl::StatusOr<AgentSecret> secret =
      place.dir.empty() ? ReadFromFile(place.file) : ReadFromDir(place.dir);
  absl::Status status = secret.status();
  if (status.ok()) status = CheckSecret(*secret);
  if (status.ok()) status = CheckTime(*secret, place);
  if (status.ok() && !IsKeyOfCertificate(secret->certificate_pem, secret->key_pem)) {
    status = absl::InvalidArgumentError(
        "its key is not that of its certificate: both must come from the same `millrace "
        "agent-secret`");
  }
  if (status.ok()) return secret;
  return Annotate(status, absl::StrCat("the agents' secret ", place.path()));
}

std::string RenewalNotice(const AgentSecret& secret, const SecretPlace& place, absl::Time now) {
  const absl::StatusOr<CertificateValidity> valid = ReadCertificateValidity(secret.certificate_pem);
  if (!valid.ok() || valid->until - now >= kRenewBefore) return "";
  return absl::StrCat("the agents' secret ", place.path(), " expires on ", DateOf(valid->until),
                      ": ", HowToRenew(place));
}

absl::Status WriteAgentSecretFile(const std::string& path, const AgentSecret& secret) {
  const OrderedJson json = {
      {"token", secret.token}, {"certificate", secret.certificate_pem}, {"key", secret.key_pem}};
  return WriteFileAtomic(path, DumpJson(json, 2) + "\n");
}

absl::Status WriteAgentSecretDir(const std::string& dir, const AgentSecret& secret) {
  std::error_code error;
  const bool made = std::filesystem::create_directories(dir, error);
  if (error) {
    return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot make the folder ", dir));
  }
  if (made) std::filesystem::permissions(dir, std::filesystem::perms::owner_all, error);
  MILLRACE_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(dir, "tls.key"), secret.key_pem));
  MILLRACE_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(dir, "tls.crt"), secret.certificate_pem));
  return WriteFileAtomic(JoinPath(dir, "token"), secret.token + "\n");
}

absl::StatusOr<std::string> AgentSecretManifest(const AgentSecret& secret, absl::string_view name,
                                                absl::string_view name_space) {
  MILLRACE_RETURN_IF_ERROR(CheckObjectName("the name", name));
  if (!name_space.empty()) {
    MILLRACE_RETURN_IF_ERROR(CheckObjectName("the namespace", name_space));
  }
  return absl::StrCat("apiVersion: v1\nkind: Secret\nmetadata:\n  name: ", name, "\n",
                      name_space.empty() ? "" : absl::StrCat("  namespace: ", name_space, "\n"),
                      "type: Opaque\ndata:\n  token: ", absl::Base64Escape(secret.token),
                      "\n  tls.crt: ", absl::Base64Escape(secret.certificate_pem),
                      "\n  tls.key: ", absl::Base64Escape(secret.key_pem), "\n");
}

}  // namespace millrace
