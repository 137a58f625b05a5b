#include "millrace/pod_port.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/text.h"

namespace millrace {
namespace {

constexpr absl::string_view kAnnotationPrefix = "annotation:";

bool IsPort(absl::string_view text, int* port) {
  int32_t number = 0;
  if (text.empty() || !std::all_of(text.begin(), text.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(text, &number) || number < 1 || number > 65535) {
    return false;
  }
  *port = number;
  return true;
}

// What Kubernetes takes as the name of a container port: an IANA service name.
bool IsPortName(absl::string_view text) {
  return !text.empty() && text.size() <= 15 && text.front() != '-' && text.back() != '-' &&
         text.find("--") == absl::string_view::npos &&
         std::all_of(
             text.begin(), text.end(),
             [](char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-'; }) &&
         std::any_of(text.begin(), text.end(), absl::ascii_islower);
}

bool IsAnnotationKey(absl::string_view text) {
  return !text.empty() && text.size() <= 253 + 1 + 63 &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.' || c == '/';
         });
}

}  // namespace

absl::StatusOr<PodPort> PodPort::Parse(absl::string_view text) {
  int port = 0;
  if (IsPort(text, &port)) return Number(port);
  absl::string_view key = text;
  if (absl::ConsumePrefix(&key, kAnnotationPrefix)) {
    if (IsAnnotationKey(key)) return Annotation(std::string(key));
  } else if (IsPortName(text)) {
    return Container(std::string(text));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", EscapeControls(Ellipsize(text, 100)),
      "\" is no port: give a number in 1..65535, the name of a container port, or annotation:KEY"));
}

absl::StatusOr<int> PodPort::Of(const Pod& pod) const {
  if (kind_ == Kind::kNumber) return number_;
  if (kind_ == Kind::kContainer) {
    for (const Pod::Port& port : pod.ports) {
      if (port.name == name_) return port.port;
    }
    return absl::NotFoundError(absl::StrCat("no container port is named ", name_));
  }
  const auto it = pod.annotations.find(name_);
  if (it == pod.annotations.end()) {
    return absl::NotFoundError(absl::StrCat("there is no annotation ", name_));
  }
  int port = 0;
  if (!IsPort(it->second, &port)) {
    return absl::InvalidArgumentError(absl::StrCat("the annotation ", name_, " is no port: \"",
                                                   EscapeControls(Ellipsize(it->second, 40)),
                                                   "\""));
  }
  return port;
}

std::string PodPort::ToString() const {
  switch (kind_) {
    case Kind::kNumber:
      return absl::StrCat(number_);
    case Kind::kContainer:
      return name_;
    case Kind::kAnnotation:
      break;
  }
  return absl::StrCat(kAnnotationPrefix, name_);
}

}  // namespace millrace
