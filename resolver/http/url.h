// File: resolver/http/url.h
//
// URLs of http and https: their parts, and text that goes into them.
//
// Defines: ParsedUrl, ParseUrl(), WithHost(), UrlEncode(), HasLineEnd().
//
// Thread safety: pure functions.

#ifndef RESOLVER_HTTP_URL_H_
#define RESOLVER_HTTP_URL_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

// What a URL names, for connecting and for error texts.
struct ParsedUrl {
  std::string scheme;
  std::string host;  // IPv6 in brackets
  std::string port;
  std::string text;  // without user, query and fragment
};

// Returns INVALID_ARGUMENT, naming the URL without its query, if it is none of http or https, or
// has a user.
[[nodiscard]] absl::StatusOr<ParsedUrl> ParseUrl(const std::string& url);

// `url` with another host; as it is if that is none.
[[nodiscard]] std::string WithHost(const std::string& url, const std::string& host);

// `text` for one segment or value of a URL: all but letters, digits and "-._~" as %XX.
[[nodiscard]] std::string UrlEncode(absl::string_view text);

// Whether `text` would end the line of a request that it is put into, or the text of C.
[[nodiscard]] bool HasLineEnd(absl::string_view text);

}  // namespace millrace

#endif  // RESOLVER_HTTP_URL_H_
