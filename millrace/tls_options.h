// File: millrace/tls_options.h
//
// How a client of an HTTPS server knows that it is the right one.
//
// Defines: TlsOptions.

#ifndef MILLRACE_TLS_OPTIONS_H_
#define MILLRACE_TLS_OPTIONS_H_

#include <string>

namespace millrace {

// Whom to trust. Of a pair (file, PEM text) at most one is set.
struct TlsOptions {
  // The authorities, PEM. Neither: those of the system. The file is read for each new connection,
  // so that a CA that rotates is followed.
  std::string ca_file;
  std::string ca_pem;
  // The name that the server must prove and that SNI sends. Empty: the URL's host.
  std::string server_name;
  // Trusts every server. Never a default.
  bool insecure_skip_verify = false;
};

}  // namespace millrace

#endif  // MILLRACE_TLS_OPTIONS_H_
