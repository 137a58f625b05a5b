#include "resolver/http/url.h"

#include <curl/curl.h>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/text.h"

namespace millrace {

bool HasLineEnd(absl::string_view text) {
  return text.find_first_of(absl::string_view("\r\n\0", 3)) != absl::string_view::npos;
}

absl::StatusOr<ParsedUrl> ParseUrl(const std::string& url) {
  const auto invalid = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", Ellipsize(EscapeControls(url.substr(0, url.find('?'))), 200), "\" ", why));
  };
  CURLU* const handle = curl_url();
  const auto free_handle = absl::MakeCleanup([handle] { curl_url_cleanup(handle); });
  if (handle == nullptr) return absl::ResourceExhaustedError("no memory for a URL");
  if (HasLineEnd(url) ||
      curl_url_set(handle, CURLUPART_URL, url.c_str(), CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK) {
    return invalid("is no URL: write https://host:port/path");
  }
  const auto part = [handle](CURLUPart what, unsigned flags = 0) {
    char* text = nullptr;
    if (curl_url_get(handle, what, &text, flags) != CURLUE_OK || text == nullptr)
      return std::string();
    std::string copy = text;
    curl_free(text);
    return copy;
  };
  ParsedUrl parsed;
  parsed.scheme = part(CURLUPART_SCHEME);
  parsed.host = part(CURLUPART_HOST);
  parsed.port = part(CURLUPART_PORT, CURLU_DEFAULT_PORT);
  if (parsed.scheme != "https" && parsed.scheme != "http") {
    return invalid("is not a URL of http or https");
  }
  if (!part(CURLUPART_USER).empty() || !part(CURLUPART_PASSWORD).empty()) {
    return invalid("holds a user or a password, which belong into headers");
  }
  parsed.text =
      absl::StrCat(parsed.scheme, "://", parsed.host, ":", parsed.port, part(CURLUPART_PATH));
  return parsed;
}

std::string WithHost(const std::string& url, const std::string& host) {
  CURLU* const handle = curl_url();
  const auto free_handle = absl::MakeCleanup([handle] { curl_url_cleanup(handle); });
  const std::string in_url =
      absl::StrContains(host, ':') && host[0] != '[' ? absl::StrCat("[", host, "]") : host;
  char* text = nullptr;
  if (handle == nullptr || curl_url_set(handle, CURLUPART_URL, url.c_str(), 0) != CURLUE_OK ||
      curl_url_set(handle, CURLUPART_HOST, in_url.c_str(), 0) != CURLUE_OK ||
      curl_url_get(handle, CURLUPART_URL, &text, 0) != CURLUE_OK) {
    return url;  // the server's certificate will be held to the URL's host
  }
  std::string replaced = text;
  curl_free(text);
  return replaced;
}

std::string UrlEncode(absl::string_view text) {
  std::string encoded;
  for (const char c : text) {
    if (absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_' || c == '~') {
      encoded.push_back(c);
    } else {
      constexpr absl::string_view kDigits = "0123456789ABCDEF";
      const auto byte = static_cast<unsigned char>(c);
      encoded.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
    }
  }
  return encoded;
}

}  // namespace millrace
