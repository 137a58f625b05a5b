// File: millrace/pod_port.h
//
// Which port of a pod the others use: one number for all pods of a job, or what each pod says.
//
// Defines: PodPort.
//
//   options.ports["worker"] = PodPort::Container("grpc");

#ifndef MILLRACE_POD_PORT_H_
#define MILLRACE_POD_PORT_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "millrace/kubernetes_pod.h"

namespace millrace {

// A value. Thread safety: const methods may run concurrently.
class PodPort {
 public:
  // The same number in every pod.
  [[nodiscard]] static PodPort Number(int port) { return PodPort(Kind::kNumber, port, ""); }
  // The container port of this name.
  [[nodiscard]] static PodPort Container(std::string name) {
    return PodPort(Kind::kContainer, 0, std::move(name));
  }
  // The number in the annotation of this key.
  [[nodiscard]] static PodPort Annotation(std::string key) {
    return PodPort(Kind::kAnnotation, 0, std::move(key));
  }

  // "8470", "grpc" (a container port's name) or "annotation:example.com/port". Returns
  // INVALID_ARGUMENT, quoting the text, if the number is outside 1..65535 or Kubernetes does not
  // allow the name or key.
  [[nodiscard]] static absl::StatusOr<PodPort> Parse(absl::string_view text);

  // Returns NOT_FOUND if the pod has no such container port or annotation, INVALID_ARGUMENT if the
  // annotation holds no port; neither names the pod.
  [[nodiscard]] absl::StatusOr<int> Of(const Pod& pod) const;

  // What Parse() reads.
  [[nodiscard]] std::string ToString() const;

  friend bool operator==(const PodPort&, const PodPort&) = default;

 private:
  enum class Kind { kNumber, kContainer, kAnnotation };
  PodPort(Kind kind, int number, std::string name)
      : kind_(kind), number_(number), name_(std::move(name)) {}

  Kind kind_;
  int number_;
  std::string name_;
};

}  // namespace millrace

#endif  // MILLRACE_POD_PORT_H_
