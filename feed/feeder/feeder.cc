#include "feed/feeder/feeder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/random.h"
#include "feed/feeder/feeder_loop.h"
#include "feed/wire/curve.h"
#include "feed/wire/poller.h"
#include "millrace/status_macros.h"

namespace millrace {

absl::StatusOr<std::unique_ptr<Feeder>> Feeder::Start(const FeederOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(WakeFd wake_fd, WakeFd::Create());
  const auto wake = std::make_shared<const WakeFd>(std::move(wake_fd));
  auto outbox = std::make_shared<FeederOutbox>([wake] { wake->Wake(); });
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<FeederLoop> loop,
                            FeederLoop::Create(options, outbox, wake));
  // Sessions, and with them the outbox, may outlive the loop.
  outbox->SetServe([server = std::weak_ptr<FeederLoop>(loop)](
                       absl::FunctionRef<AfterTurn()> after_turn, absl::Duration timeout) {
    if (const auto serving = server.lock()) serving->Serve(after_turn, timeout);
  });
  FeederLoop* running = loop.get();
  std::unique_ptr<Feeder> feeder(new Feeder(options, std::move(outbox), std::move(loop)));
  MILLRACE_ASSIGN_OR_RETURN(Thread thread, Thread::Start("feeder", [running] { running->Run(); }));
  MutexLock lock(&feeder->stop_mu_);
  feeder->thread_ = std::move(thread);
  return feeder;
}

Feeder::Feeder(const FeederOptions& options, std::shared_ptr<FeederOutbox> outbox,
               std::shared_ptr<FeederLoop> loop)
    : options_(options),
      outbox_(std::move(outbox)),
      loop_(std::move(loop)),
      principal_(loop_->principal()),
      curve_key_(loop_->curve_key()) {}

Feeder::~Feeder() { Stop(); }

void Feeder::Stop() {
  outbox_->Close();
  MutexLock lock(&stop_mu_);
  thread_.Join();
}

absl::StatusOr<std::shared_ptr<FeedSession>> Feeder::OpenSession(const FeedTarget& target,
                                                                 const SessionOptions& options) {
  if (outbox_->closed()) return absl::CancelledError("the feeder is stopped");
  if (target.state != FeedTarget::State::kRunning) {
    return absl::FailedPreconditionError(
        absl::StrCat(target.node, " is not running; look it up again"));
  }
  const bool has_curve = !target.curve_endpoint.empty();
  if (options_.curve_only && !has_curve) {
    return absl::InvalidArgumentError(absl::StrCat(
        target.node, " has no CURVE endpoint, and this feeder is to use no other (curve_only)"));
  }
  if (!has_curve && target.ipc_endpoint.empty() && target.tcp_endpoint.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(target.node, " has no feed endpoint"));
  }
  if (has_curve) MILLRACE_RETURN_IF_ERROR(DecodeCurveKey(target.curve_key).status());
  if (options.feed_id.empty()) return absl::InvalidArgumentError("a session needs a feed_id");
  if (options.feed_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        "feed_timeout must be positive; absl::InfiniteDuration() waits for ever");
  }
  if (options.mode == FeedMode::kInference && options.first_row != 0) {
    return absl::InvalidArgumentError("inference begins at row 0");
  }
  if (options.mode == FeedMode::kInference && options.resumed) {
    return absl::InvalidArgumentError("inference is not resumed: it is run again");
  }
  uint64_t id = 0;
  while (id == 0) id = RandomU64();
  auto session =
      std::make_shared<FeedSession>(id, target, options, options_.open_timeout, outbox_,
                                    options_.shared_memory ? options_.shared_min_bytes : INT64_MAX);
  outbox_->Push({.kind = FeederCommand::Kind::kOpen, .session = session});
  return session;
}

FeederStats Feeder::stats() const { return loop_->stats(); }

}  // namespace millrace
