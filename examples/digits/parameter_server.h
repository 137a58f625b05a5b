// Weights behind the gRPC service Parameters: the ps of examples/digits, which updates them itself,
// or a chief that publishes its own for the evaluator to read.
#ifndef EXAMPLES_DIGITS_PARAMETER_SERVER_H_
#define EXAMPLES_DIGITS_PARAMETER_SERVER_H_

#include <algorithm>
#include <chrono>  // std::condition_variable takes it
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

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
    const std::lock_guard<std::mutex> lock(mu_);
    model_.values() = values;
    version_ = version;
    updated_.notify_all();
  }

  grpc::Status Pull(grpc::ServerContext* context, const PullRequest* request,
                    Weights* reply) override {
    std::unique_lock<std::mutex> lock(mu_);
    while (version_ < request->min_version()) {
      // Wakes now and then for a caller that has gone.
      if (context->IsCancelled()) return grpc::Status::CANCELLED;
      updated_.wait_for(lock, std::chrono::milliseconds(50));
    }
    reply->set_version(version_);
    reply->mutable_values()->Add(model_.values().begin(), model_.values().end());
    return grpc::Status::OK;
  }

  grpc::Status Push(grpc::ServerContext*, const Gradient* request, PushReply* reply) override {
    const std::lock_guard<std::mutex> lock(mu_);
    if (request->values_size() != model_.values().size()) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "a gradient of another model"};
    }
    // A gradient of long ago says little of today's weights, and a worker that had to wait for a
    // processor may send one at the very end (Zhang et al., Staleness-aware Async-SGD, 2015).
    const float age = static_cast<float>(version_ - request->version());
    const float weight = kFreshUpdates / std::max(age, kFreshUpdates);
    adam_.Apply(weight * Eigen::Map<const Eigen::VectorXf>(request->values().data(),
                                                           request->values_size()),
                &model_.values());
    version_ = adam_.steps();
    reply->set_version(version_);
    updated_.notify_all();
    return grpc::Status::OK;
  }

 private:
  // As old as gradients are where a few workers take turns.
  static constexpr float kFreshUpdates = 4;

  std::mutex mu_;  // guards everything below
  std::condition_variable updated_;
  Mlp model_;
  Adam adam_;
  int64_t version_ = 0;
};

}  // namespace millrace::examples

#endif  // EXAMPLES_DIGITS_PARAMETER_SERVER_H_
