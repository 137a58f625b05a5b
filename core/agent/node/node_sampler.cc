#include "core/agent/node/node_sampler.h"

#include <algorithm>
#include <utility>

#include "core/agent/node/process_sampler.h"
#include "core/base/clock.h"
#include "core/proto/time_proto.h"

namespace millrace {
namespace {

// A node that sets the pace has fallen silent after so many intervals.
constexpr double kSilence = 1.5;

}  // namespace

NodeSampler::NodeSampler(EventLoop* loop, SendFn send) : loop_(loop), send_(std::move(send)) {}

NodeSampler::~NodeSampler() { loop_->Cancel(&timer_); }

void NodeSampler::Start(pid_t pid, uint32_t attempt, absl::Duration interval) {
  pid_ = pid;
  interval_ = interval;
  sample_.set_attempt(attempt);
  Sample();
}

void NodeSampler::Sample() {
  *sample_.mutable_time() = TimeToProto(RealClock()->Now());
  // The CPU time of a child that was not waited for is lost when it ends; the counter must not run
  // backwards because of that.
  const uint64_t cpu_us = sample_.process().cpu_us();
  *sample_.mutable_process() = SampleProcess(pid_);
  if (sample_.process().has_cpu_us()) {
    sample_.mutable_process()->set_cpu_us(std::max(cpu_us, sample_.process().cpu_us()));
  }
  sampled_ = RealClock()->SteadyNow();
  loop_->Cancel(&timer_);
  timer_ = loop_->After(paced_ ? kSilence * interval_ : interval_, [this] { Sample(); });
  send_(sample_);
}

void NodeSampler::OnFeed(const v1::NodeSample& feed) {
  *sample_.mutable_queues() = feed.queues();
  sample_.set_feed_budget_bytes(feed.feed_budget_bytes());
  sample_.set_feed_held_bytes(feed.feed_held_bytes());
  sample_.set_why_not_shared(feed.why_not_shared());
  if (pid_ == 0) return;
  // The first one comes soon after a sample by the timer, whose place it takes.
  const bool soon = RealClock()->SteadyNow() - sampled_ < interval_ / 2;
  if (std::exchange(paced_, true) && soon) return;
  Sample();
}

void NodeSampler::OnStep(int64_t step) {
  if (sample_.has_step() && step <= sample_.step()) return;
  sample_.set_step(step);
  *sample_.mutable_step_time() = TimeToProto(RealClock()->Now());
}

void NodeSampler::Finish() {
  if (pid_ == 0) return;
  loop_->Cancel(&timer_);
  pid_ = 0;
  sample_.clear_process();
  *sample_.mutable_time() = TimeToProto(RealClock()->Now());
  send_(sample_);
}

}  // namespace millrace
