// Weights behind the gRPC service Parameters: the ps of examples/digits, which updates them itself,
// or a chief that publishes its own for the evaluator to read.
#ifndef EXAMPLES_DIGITS_PARAMETER_SERVER_H_
#define EXAMPLES_DIGITS_PARAMETER_SERVER_H_

#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "examples/digits/adam.h"
#include "examples/digits/digits.grpc.pb.h"
#include "examples/digits/mlp.h"

namespace millrace::examples {

// Thread safety: gRPC calls it from its own threads.
class ParameterServer final : public Parameters::Service {
 public:
  ParameterServer(Mlp model, float learning_rate)
      : model_(std::move(model)), adam_(model_.values().size(), learning_rate) {}

  // The weights after `version` updates that somebody else made.
  void Publish(const Eigen::VectorXf& values, int64_t version) {
    MutexLock lock(&mu_);
    model_.values() = values;
    version_ = version;
    updated_.SignalAll();
  }

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
    adam_.Apply(Eigen::Map<const Eigen::VectorXf>(request->values().data(), request->values_size()),
                &model_.values());
    version_ = adam_.steps();
    reply->set_version(version_);
    updated_.SignalAll();
    return grpc::Status::OK;
  }

 private:
  Mutex mu_;
  CondVar updated_;
  Mlp model_ ABSL_GUARDED_BY(mu_);
  Adam adam_ ABSL_GUARDED_BY(mu_);
  int64_t version_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace millrace::examples

#endif  // EXAMPLES_DIGITS_PARAMETER_SERVER_H_
