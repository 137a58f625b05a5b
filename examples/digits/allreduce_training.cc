#include "examples/digits/allreduce_training.h"

#include <algorithm>
#include <chrono>  // std::future takes it
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "examples/digits/adam.h"
#include "examples/digits/all_reduce.h"
#include "millrace/status_macros.h"

namespace millrace::examples {
namespace {

constexpr std::chrono::milliseconds kWaitForRows(5);

// Reads the feed on a thread beside. A rank must never wait for rows while the others wait for it
// in an all-reduce: they would not read either, their budgets would fill, and no feeder could go
// on.
class Reader {
 public:
  Reader(std::unique_ptr<DataFeed> feed, int64_t rows) : feed_(std::move(feed)), rows_(rows) {
    Ask();
  }
  // Terminate lets a NextBatch that still waits return.
  ~Reader() {
    if (!ended_) feed_->Terminate().IgnoreError();
  }

  // The next rows if there are any by now. The batch before has been used.
  absl::StatusOr<std::optional<Batch>> Poll() {
    if (!next_.valid() && !ended_) Ask();
    if (ended_ || next_.wait_for(kWaitForRows) != std::future_status::ready) return std::nullopt;
    MILLRACE_ASSIGN_OR_RETURN(Batch batch, next_.get());
    if (!batch.empty()) return batch;
    ended_ = feed_->ShouldStop();
    return std::nullopt;
  }

  bool ended() const { return ended_; }

 private:
  void Ask() {
    next_ = std::async(std::launch::async, [this] { return feed_->NextBatch(rows_); });
  }

  const std::unique_ptr<DataFeed> feed_;
  const int64_t rows_;
  bool ended_ = false;
  std::future<absl::StatusOr<Batch>> next_;  // its destructor waits for the thread
};

// A hash (FNV-1a) of every bit of the parameters, the same on every host.
uint64_t Fingerprint(const Mlp& model) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte :
       std::as_bytes(std::span(model.values().data(), model.values().size()))) {
    hash = (hash ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3;
  }
  return hash;
}

void PrintEpoch(int64_t epoch, double loss, const Mlp& model) {
  std::printf("epoch %ld: loss %.3f, parameters %016lx\n", static_cast<long>(epoch), loss,
              static_cast<unsigned long>(Fingerprint(model)));
  std::fflush(stdout);
}

}  // namespace

absl::Status TrainByAllReduce(NodeContext& ctx, const AllReduceTraining& options, Mlp* model) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<AllReduce> all, AllReduce::Join(ctx));
  Reader reader(ctx.GetDataFeed({.input_mapping = {{"image", "x"}, {"label", "y"}}}),
                std::max(1, options.batch / all->ranks()));
  const Eigen::Index weights = model->values().size();
  Adam adam(weights, options.learning_rate);
  Eigen::VectorXf gradient;
  // What is summed: the gradients, each weighted by its rows, and then the losses likewise, the
  // rows, and how many ranks read on. A rank without rows adds nothing, and all hear in the same
  // step that nobody reads any more: they end together, however unevenly the rows were dealt.
  Eigen::VectorXf sum(weights + 3);
  float& loss_sum = sum[weights];
  float& rows_sum = sum[weights + 1];
  float& readers = sum[weights + 2];
  int64_t rows_seen = 0;
  int64_t epoch = 0;
  double epoch_loss = 0;  // of all its rows
  int64_t epoch_rows = 0;
  do {
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<Batch> batch, reader.Poll());
    sum.setZero();
    if (batch.has_value()) {
      const Images images(batch->column<float>("x").data(), batch->num_rows(), kPixels);
      const float rows = static_cast<float>(batch->num_rows());
      loss_sum = rows * model->Loss(images, batch->column<int64_t>("y"), &gradient);
      sum.head(weights) = rows * gradient;
      rows_sum = rows;
    }
    readers = reader.ended() ? 0 : 1;
    MILLRACE_RETURN_IF_ERROR(all->Sum(std::span<float>(sum.data(), sum.size())));
    if (rows_sum == 0) continue;
    adam.Apply(sum.head(weights) / rows_sum, &model->values());
    options.on_step(adam.steps(), *model);
    rows_seen += static_cast<int64_t>(rows_sum);
    epoch_rows += static_cast<int64_t>(rows_sum);
    epoch_loss += loss_sum;
    if (rows_seen < (epoch + 1) * options.epoch_rows) continue;
    epoch = rows_seen / options.epoch_rows;
    PrintEpoch(epoch, epoch_loss / static_cast<double>(epoch_rows), *model);
    if (ctx.rank() == 0)
      ctx.ReportMetric("loss", adam.steps(), epoch_loss / static_cast<double>(epoch_rows));
    epoch_loss = 0;
    epoch_rows = 0;
  } while (readers > 0);
  return absl::OkStatus();
}

}  // namespace millrace::examples
