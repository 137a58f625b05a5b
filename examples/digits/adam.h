// The optimiser of both strategies (Kingma and Ba, 2015).
#ifndef EXAMPLES_DIGITS_ADAM_H_
#define EXAMPLES_DIGITS_ADAM_H_

#include <Eigen/Dense>
#include <cmath>
#include <cstdint>

namespace millrace::examples {

class Adam {
 public:
  Adam(Eigen::Index size, float learning_rate)
      : learning_rate_(learning_rate), mean_(Eigen::VectorXf::Zero(size)), variance_(mean_) {}

  // One step: the same gradients in the same order give the same bits everywhere.
  void Apply(const Eigen::Ref<const Eigen::VectorXf>& gradient, Eigen::VectorXf* values) {
    constexpr float kBeta1 = 0.9f;
    constexpr float kBeta2 = 0.999f;
    // Large: once the gradients are tiny, a small one throws the weights about.
    constexpr float kEpsilon = 1e-4f;
    ++steps_;
    mean_ = kBeta1 * mean_ + (1 - kBeta1) * gradient;
    variance_ = kBeta2 * variance_ + (1 - kBeta2) * gradient.cwiseProduct(gradient);
    const float t = static_cast<float>(steps_);
    const float mean_scale = 1 / (1 - std::pow(kBeta1, t));
    const float variance_scale = 1 / (1 - std::pow(kBeta2, t));
    // Smaller steps towards the end: it keeps what it has learned.
    const float rate = learning_rate_ / std::sqrt(1 + t / 100);
    values->array() -= rate * (mean_.array() * mean_scale) /
                       ((variance_.array() * variance_scale).sqrt() + kEpsilon);
  }

  int64_t steps() const { return steps_; }

 private:
  const float learning_rate_;
  Eigen::VectorXf mean_;
  Eigen::VectorXf variance_;
  int64_t steps_ = 0;
};

}  // namespace millrace::examples

#endif  // EXAMPLES_DIGITS_ADAM_H_
