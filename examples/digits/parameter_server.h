// The ps of examples/digits: weights behind the gRPC service Parameters, updated by Adam.
#ifndef EXAMPLES_DIGITS_PARAMETER_SERVER_H_
#define EXAMPLES_DIGITS_PARAMETER_SERVER_H_

#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "examples/digits/digits.grpc.pb.h"
#include "examples/digits/mlp.h"

namespace millrace::examples {

// Thread safety: gRPC calls it from its own threads.
class ParameterServer final : public Parameters::Service {
 public:
  ParameterServer(Mlp model, float learning_rate)
      : learning_rate_(learning_rate),
        model_(std::move(model)),
        mean_(Eigen::VectorXf::Zero(model_.values().size())),
        variance_(mean_) {}

  grpc::Status Pull(grpc::ServerContext* context, const PullRequest* request,
                    Weights* reply) override {
    MutexLock lock(&mu_);
    while (version_ < request->min_version()) {
      // Wakes now and then for a caller that has gone.
      if (context->IsCancelled()) return grpc::Status::CANCELLED;
      updated_.WaitWithTimeout(&mu_, absl::Milliseconds(50));
    }
    reply->set_version(version_);
    reply->mutable_values()->Add(model_.values().begin(), model_.values().end());
    return grpc::Status::OK;
  }

  grpc::Status Push(grpc::ServerContext*, const Gradient* request, PushReply* reply) override {
    MutexLock lock(&mu_);
    if (request->values_size() != model_.values().size()) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "a gradient of another model"};
    }
    Apply(Eigen::Map<const Eigen::VectorXf>(request->values().data(), request->values_size()));
    reply->set_version(version_);
    updated_.SignalAll();
    return grpc::Status::OK;
  }

 private:
  // One step of Adam (Kingma and Ba, 2015).
  void Apply(const Eigen::Map<const Eigen::VectorXf>& gradient) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    constexpr float kBeta1 = 0.9f;
    constexpr float kBeta2 = 0.999f;
    ++version_;
    mean_ = kBeta1 * mean_ + (1 - kBeta1) * gradient;
    variance_ = kBeta2 * variance_ + (1 - kBeta2) * gradient.cwiseProduct(gradient);
    const float t = static_cast<float>(version_);
    const float mean_scale = 1 / (1 - std::pow(kBeta1, t));
    const float variance_scale = 1 / (1 - std::pow(kBeta2, t));
    model_.values().array() -= learning_rate_ * (mean_.array() * mean_scale) /
                               ((variance_.array() * variance_scale).sqrt() + 1e-8f);
  }

  const float learning_rate_;
  Mutex mu_;
  CondVar updated_;
  Mlp model_ ABSL_GUARDED_BY(mu_);
  Eigen::VectorXf mean_ ABSL_GUARDED_BY(mu_);
  Eigen::VectorXf variance_ ABSL_GUARDED_BY(mu_);
  int64_t version_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace millrace::examples

#endif  // EXAMPLES_DIGITS_PARAMETER_SERVER_H_
