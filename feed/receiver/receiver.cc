#include "feed/receiver/receiver.h"

#include <memory>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "feed/receiver/data_feed.h"
#include "feed/receiver/receiver_waker.h"
#include "feed/wire/poller.h"
#include "feed/wire/socket_turns.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr absl::Duration kFlush = absl::Seconds(2);

absl::Status CheckOptions(const FeedReceiverOptions& options) {
  if (options.queues.empty()) return absl::InvalidArgumentError("a feed receiver needs a queue");
  absl::flat_hash_set<absl::string_view> names;
  for (const std::string& name : options.queues) {
    if (name.empty()) return absl::InvalidArgumentError("a queue needs a name");
    if (!names.insert(name).second) {
      return absl::InvalidArgumentError(absl::StrCat("two queues are named \"", name, "\""));
    }
  }
  if (options.budget_bytes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("budget_bytes must be at least 1, found ", options.budget_bytes));
  }
  if (options.clock == nullptr) return absl::InvalidArgumentError("a feed receiver needs a clock");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<FeedReceiver>> FeedReceiver::Start(FeedReceiverOptions options) {
  if (absl::Status status = CheckOptions(options); !status.ok()) {
    return Annotate(status, options.node_name);
  }
  MILLRACE_ASSIGN_OR_RETURN(WakeFd wake_fd, WakeFd::Create());
  auto waker = std::make_shared<ReceiverWaker>(std::move(wake_fd));
  // Programs may hold the core longer than this receiver holds the loop.
  auto server = std::make_shared<std::weak_ptr<ReceiverLoop>>();
  auto core = std::make_shared<ReceiverCore>(
      ReceiverCore::Options{.node_name = options.node_name,
                            .nonce = options.nonce,
                            .queues = options.queues,
                            .budget_bytes = options.budget_bytes,
                            .shared_min_bytes = options.shared_min_bytes,
                            .clock = options.clock,
                            .tell_rows = options.tell_rows},
      [server] {
        if (const auto loop = server->lock()) loop->Flush();
      },
      [server](absl::FunctionRef<AfterTurn()> after_turn) {
        if (const auto loop = server->lock()) loop->Serve(after_turn);
      });
  MILLRACE_ASSIGN_OR_RETURN(
      std::shared_ptr<ReceiverLoop> loop,
      ReceiverLoop::Create({.nonce = options.nonce,
                            .clock = options.clock,
                            .tcp_ports = options.tcp_ports,
                            .advertise_host = options.advertise_host,
                            .shared_bytes = options.shared_memory ? options.budget_bytes : 0},
                           core, std::move(waker)));
  *server = loop;
  std::unique_ptr<FeedReceiver> receiver(new FeedReceiver(std::move(core), std::move(loop)));
  MILLRACE_ASSIGN_OR_RETURN(
      receiver->thread_,
      Thread::Start("feed-receiver", [loop = receiver->loop_.get()] { loop->Run(); }));
  return receiver;
}

FeedReceiver::~FeedReceiver() {
  static_cast<void>(Finish(absl::CancelledError("the feed receiver was destroyed")));
}

absl::Status FeedReceiver::NoJoin() {
  return absl::FailedPreconditionError("there are no other ranks here");
}

absl::StatusOr<std::unique_ptr<DataFeed>> FeedReceiver::GetDataFeed(
    DataFeedOptions options, absl::FunctionRef<absl::Status()> join) {
  const FeedMode mode = options.train_mode ? FeedMode::kTrain : FeedMode::kInference;
  if (options.equal != EqualRanks::kOff) {
    if (mode == FeedMode::kInference) {
      return absl::InvalidArgumentError(
          "DataFeedOptions::equal is for training; in inference every row has its result");
    }
    if (options.batch_rows < 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "DataFeedOptions::equal needs batch_rows, at least 1, found ", options.batch_rows));
    }
    MILLRACE_RETURN_IF_ERROR(
        core_->SetEqual(options.queue, options.batch_rows, options.equal == EqualRanks::kPad));
    MILLRACE_RETURN_IF_ERROR(join());
  } else if (mode == FeedMode::kTrain && core_->equal(options.queue) != nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(core_->node_name(), " reads the queue \"", options.queue,
                     "\" so that ranks end together; a DataFeed that does not would break that"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const size_t queue, core_->OpenReader(options.queue, mode));
  return MakeDataFeed(core_, queue, std::move(options));
}

void FeedReceiver::FeedEnd(absl::string_view feed_id, bool aborted) {
  core_->FeedEnd(feed_id, aborted);
}

void FeedReceiver::EndFeed(absl::string_view queue) {
  if (!core_->EndFeed(queue)) MILLRACE_LOG(WARNING) << "EndFeed: no queue \"" << queue << "\"";
}

void FeedReceiver::EndAllFeeds() { core_->EndAllFeeds(); }

absl::Status FeedReceiver::Finish(absl::Status program_status) {
  MutexLock lock(&mu_);
  if (std::exchange(finished_, true)) return program_status;
  const absl::Status unanswered = core_->Finish(program_status);
  loop_->Stop(kFlush);
  thread_.Join();
  return program_status.ok() ? unanswered : program_status;
}

}  // namespace millrace
