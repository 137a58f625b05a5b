// A perceptron with one hidden layer for 8x8 images of digits: softmax(W2 · relu(W1 · x + b1) +
// b2).
#ifndef EXAMPLES_DIGITS_MLP_H_
#define EXAMPLES_DIGITS_MLP_H_

#include <Eigen/Dense>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace millrace::examples {

inline constexpr int kPixels = 64;  // values 0 to 16, row by row
inline constexpr int kClasses = 10;

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Images = Eigen::Map<const Matrix>;  // rows x kPixels

// The weights as one flat vector, and what can be computed with them.
class Mlp {
 public:
  explicit Mlp(int hidden)
      : hidden_(hidden), values_(hidden * (kPixels + 1 + kClasses) + kClasses) {}

  // He initialisation.
  void Initialize(uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    values_.setZero();
    for (float& w : w1().reshaped()) w = normal(random) * std::sqrt(2.0f / kPixels);
    for (float& w : w2().reshaped()) w = normal(random) * std::sqrt(2.0f / hidden_);
  }

  // W1 (hidden x pixels), b1, W2 (classes x hidden), b2.
  Eigen::VectorXf& values() { return values_; }
  const Eigen::VectorXf& values() const { return values_; }

  // The most likely class of each image.
  std::vector<int64_t> Predict(const Images& images) const {
    const Matrix scores = Scores(Hidden(images));
    std::vector<int64_t> classes(images.rows());
    for (Eigen::Index i = 0; i < images.rows(); ++i) scores.row(i).maxCoeff(&classes[i]);
    return classes;
  }

  // The mean cross entropy over the images; *gradient gets its derivative by values().
  float Loss(const Images& images, std::span<const int64_t> labels,
             Eigen::VectorXf* gradient) const {
    const Matrix hidden = Hidden(images);
    Matrix delta = Scores(hidden);  // becomes softmax(scores) - onehot(label), over the rows
    float loss = 0;
    for (Eigen::Index i = 0; i < delta.rows(); ++i) {
      delta.row(i).array() = (delta.row(i).array() - delta.row(i).maxCoeff()).exp();
      delta.row(i) /= delta.row(i).sum();
      loss -= std::log(std::max(delta(i, labels[i]), 1e-12f));
      delta(i, labels[i]) -= 1;
    }
    const float rows = static_cast<float>(delta.rows());
    delta /= rows;

    Mlp out(hidden_);
    out.w2() = delta.transpose() * hidden;
    out.b2() = delta.colwise().sum();
    const Matrix back = (delta * w2()).array() * (hidden.array() > 0).cast<float>();
    out.w1() = back.transpose() * (images / kScale);
    out.b1() = back.colwise().sum();
    *gradient = std::move(out.values_);
    return loss / rows;
  }

 private:
  static constexpr float kScale = 16;
  using Weights = Eigen::Map<Matrix>;
  using ConstWeights = Eigen::Map<const Matrix>;
  using Bias = Eigen::Map<Eigen::RowVectorXf>;
  using ConstBias = Eigen::Map<const Eigen::RowVectorXf>;

  Matrix Hidden(const Images& images) const {
    return (((images / kScale) * w1().transpose()).rowwise() + b1()).cwiseMax(0);
  }
  Matrix Scores(const Matrix& hidden) const { return (hidden * w2().transpose()).rowwise() + b2(); }

  int b1_at() const { return hidden_ * kPixels; }
  int w2_at() const { return b1_at() + hidden_; }
  int b2_at() const { return w2_at() + hidden_ * kClasses; }
  Weights w1() { return {values_.data(), hidden_, kPixels}; }
  Bias b1() { return {values_.data() + b1_at(), hidden_}; }
  Weights w2() { return {values_.data() + w2_at(), kClasses, hidden_}; }
  Bias b2() { return {values_.data() + b2_at(), kClasses}; }
  ConstWeights w1() const { return {values_.data(), hidden_, kPixels}; }
  ConstBias b1() const { return {values_.data() + b1_at(), hidden_}; }
  ConstWeights w2() const { return {values_.data() + w2_at(), kClasses, hidden_}; }
  ConstBias b2() const { return {values_.data() + b2_at(), kClasses}; }

  const int hidden_;
  Eigen::VectorXf values_;
};

}  // namespace millrace::examples

#endif  // EXAMPLES_DIGITS_MLP_H_
