#include "feed/feeder/feeder.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "feed/arrow/make_record_batch.h"
#include "feed/feeder/fake_feed_node.h"
#include "feed/feeder/feeder_fixture.h"
#include "feed/feeder/node_directory.h"
#include "feed/source/id_source.h"
#include "feed/wire/frame.h"
#include "feed/wire/login.h"
#include "feed/wire/zmq_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/column_view.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/types.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Lt;
using Event = FakeFeedNode::Event;
using Session = FakeFeedNode::Session;

std::vector<FrameType> Types(const std::vector<Event>& events) {
  std::vector<FrameType> types;
  for (const Event& event : events) types.push_back(event.type);
  return types;
}

TEST_F(FeederTest, ASessionRunsFromOpenToDone) {
  FakeFeedNode node("worker:1", FakeFeedNode::ReadAll());
  auto session = Open(node.target(), Options());
  EXPECT_THAT(session->Send(Ids(0, 100)), IsOk());
  EXPECT_THAT(session->Send(Ids(0, 0)), IsOk());
  EXPECT_THAT(session->Send(Ids(100, 28)), IsOk());
  EXPECT_THAT(session->Finish(128), IsOk());
  EXPECT_THAT(session->WaitReceived(), IsOk());
  EXPECT_THAT(session->WaitDone(), IsOk());

  const SessionState state = session->state();
  EXPECT_EQ(state.end, SessionEnd::kDone);
  EXPECT_EQ(state.acked_rows, 128);
  const std::vector<Event> events = node.events();
  EXPECT_THAT(Types(events), ElementsAre(FrameType::kOpen, FrameType::kSchema, FrameType::kBatch,
                                         FrameType::kBatch, FrameType::kEndPartition));
  EXPECT_EQ(events[0].open.feed_id, "f1");
  EXPECT_EQ(events[0].open.partition, 3);
  EXPECT_EQ(events[0].open.node_nonce, node.target().nonce);
  EXPECT_EQ(events[3].first_row, 100);
  EXPECT_EQ(feeder_->stats().batches_sent, 2);
}

TEST_F(FeederTest, AnEmptyPartitionHasNoSchema) {
  FakeFeedNode node("worker:1", FakeFeedNode::ReadAll());
  auto session = Open(node.target(), Options());
  EXPECT_THAT(session->Finish(0), IsOk());
  EXPECT_THAT(session->WaitDone(), IsOk());
  EXPECT_THAT(Types(node.events()), ElementsAre(FrameType::kOpen, FrameType::kEndPartition));
}

TEST_F(FeederTest, NothingButOpenIsSentBeforeTheFirstCredit) {
  FakeFeedNode node("worker:1", FakeFeedNode::Mute());
  auto session = Open(node.target(), Options());
  Thread sender("sender", [&] { EXPECT_THAT(session->Send(Ids(0, 10)), IsOk()); });
  ASSERT_TRUE(node.WaitFor([](const auto& events) { return events.size() >= 1; }));
  node.Post([](Session& s) { s.Wait(1, 0); });
  node.Post([](Session& s) { s.Wait(1, 1); });
  EXPECT_EQ(node.events().size(), 1u);
  node.Post([](Session& s) { s.CreditAll(); });
  sender.Join();
  EXPECT_TRUE(node.WaitFor([](const auto& events) { return events.size() >= 3; }));
  EXPECT_THAT(Types(node.events()),
              ElementsAre(FrameType::kOpen, FrameType::kSchema, FrameType::kBatch));
}

TEST_F(FeederTest, BatchesStayWithinTheCreditAndTheNodeIsToldWhatTheyNeed) {
  FakeFeedNode node("worker:1", [](Session& session, FrameType type) {
    if (type == FrameType::kOpen) session.Credit(1, 0);  // less than any batch
  });
  auto session = Open(node.target(), Options());
  auto prepared = session->Prepare(Ids(0, 1000));
  ASSERT_THAT(prepared, IsOk());
  const int64_t bytes = prepared->size_bytes;
  EXPECT_GT(bytes, 8000);
  // Nothing is outstanding, and still nothing goes that the node has not granted.
  EXPECT_THAT(session->TrySend(*prepared), IsOkAndHolds(false));
  EXPECT_THAT(session->TrySend(*prepared), IsOkAndHolds(false));
  node.Post([&](Session& s) { s.Credit(bytes - 1, 0); });
  node.Post([&](Session& s) { s.Credit(bytes, 0); });
  auto ready = session->WaitReady(bytes);
  ASSERT_THAT(ready, IsOk());
  EXPECT_TRUE(ready->can_send);
  EXPECT_THAT(session->TrySend(*prepared), IsOkAndHolds(true));
  // Credit for exactly the second.
  prepared = session->Prepare(Ids(1000, 1000));
  node.Post([&](Session& s) { s.Credit(2 * bytes, 0); });
  EXPECT_THAT(session->WaitReady(bytes), IsOk());
  EXPECT_THAT(session->TrySend(*prepared), IsOkAndHolds(true));
  // What is let go is no credit by itself.
  prepared = session->Prepare(Ids(2000, 1000));
  node.Post([&](Session& s) { s.Credit(2 * bytes, 2 * bytes); });
  EXPECT_THAT(session->TrySend(*prepared), IsOkAndHolds(false));
  EXPECT_TRUE(node.WaitFor([&](const auto& events) { return events.back().bytes == 3 * bytes; }));
  const std::vector<FakeFeedNode::Event> events = node.events();
  ASSERT_GT(events.size(), 3u);
  EXPECT_EQ(events[2].type, FrameType::kBlocked);
  EXPECT_EQ(events[2].bytes, bytes) << "the limit that the first batch needs";
  EXPECT_EQ(events[3].type, FrameType::kBatch);
  EXPECT_EQ(events[3].bytes, bytes) << "credit counts metadata and body";
}

TEST_F(FeederTest, LargeBuffersArriveAsTheyWere) {
  FakeFeedNode node("worker:1", FakeFeedNode::ReadAll());
  auto session = Open(node.target(), Options());
  EXPECT_THAT(session->Send(Ids(7, 300000)), IsOk());
  EXPECT_THAT(session->Finish(300000), IsOk());
  EXPECT_THAT(session->WaitDone(), IsOk());
  const std::vector<int64_t> values = node.values();
  ASSERT_EQ(values.size(), 300000u);
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], static_cast<int64_t>(i) + 7);
}

// Ids, and a column of bytes: row 0 has 3 of them, row 1 has `large`, all on the system's zero
// page.
RecordBatch SmallAndLargeRow(size_t large) {
  const size_t size = 3 + large;
  void* memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  MILLRACE_CHECK(memory != MAP_FAILED);
  auto offsets = std::make_shared<std::vector<int64_t>>(
      std::vector<int64_t>{0, 3, static_cast<int64_t>(size)});
  auto ids = std::make_shared<std::vector<int64_t>>(std::vector<int64_t>{0, 1});
  ColumnData id{.type = Type::Int64(), .length = 2};
  id.data = reinterpret_cast<const uint8_t*>(ids->data());
  id.data_bytes = 16;
  ColumnData column{.type = Type::LargeBinary(), .length = 2};
  column.offsets = reinterpret_cast<const uint8_t*>(offsets->data());
  column.data = static_cast<const uint8_t*>(memory);
  column.data_bytes = static_cast<int64_t>(size);
  std::vector<std::shared_ptr<const void>> owners = {
      ids, offsets, std::shared_ptr<const void>(memory, [size](void* m) { munmap(m, size); })};
  const Schema schema =
      *SchemaBuilder().Add("id", Type::Int64()).Add("image", Type::LargeBinary()).Build();
  return internal::MakeRecordBatch(schema, 2, {std::move(id), std::move(column)},
                                   std::move(owners));
}

TEST_F(FeederTest, ARowThatNoBatchCanHaveIsRefusedAndNamed) {
  FakeFeedNode node("worker:1", FakeFeedNode::ReadAll());
  auto session = Open(node.target(), Options());
  const RecordBatch rows = SmallAndLargeRow(size_t{1} << 30);
  const std::vector<RecordBatch> batches = SliceBySize(rows);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_THAT(session->Send(batches[0]), IsOk());
  EXPECT_THAT(session->Send(batches[1]),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("worker:1, partition"), HasSubstr("row 1 takes 10737"),
                             HasSubstr("at most 1073741824"))));
  EXPECT_EQ(session->state().end, SessionEnd::kOpen);
}

TEST_F(FeederTest, AChangedSchemaIsInvalidAndNamesTheColumn) {
  FakeFeedNode node("worker:1", FakeFeedNode::ReadAll());
  auto session = Open(node.target(), Options());
  EXPECT_THAT(session->Send(Ids(0, 10)), IsOk());
  EXPECT_THAT(session->Send(Ids(10, 10, "key")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("worker:1, partition 3"), HasSubstr("key"))));
}

TEST_F(FeederTest, NoAnswerToOpenIsUnavailable) {
  auto feeder = Feeder::Start({.open_timeout = absl::Seconds(1)});
  ASSERT_THAT(feeder, IsOk());
  FakeFeedNode node("worker:1", FakeFeedNode::Mute());
  auto session = (*feeder)->OpenSession(node.target(), Options());
  ASSERT_THAT(session, IsOk());
  EXPECT_THAT((*session)->Send(Ids(0, 1)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no answer to OPEN")));
  EXPECT_EQ((*session)->state().end, SessionEnd::kUnanswered);
}

// As if somebody had pressed Ctrl-Z: what a node answers meanwhile is heard afterwards.
TEST_F(FeederTest, TimeInWhichTheProcessIsStoppedIsNoSilenceOfTheNode) {
  auto feeder = Feeder::Start({.open_timeout = absl::Seconds(2)});
  ASSERT_THAT(feeder, IsOk());
  FakeFeedNode node("worker:1", FakeFeedNode::Mute());
  auto session = (*feeder)->OpenSession(node.target(), Options());
  ASSERT_THAT(session, IsOk());
  auto other = (*feeder)->OpenSession(node.target(), Options());
  ASSERT_THAT(other, IsOk());
  const absl::Time began = absl::Now();
  Thread waits("waits", [&] { (*other)->Send(Ids(0, 1)).IgnoreError(); });
  const pid_t child = ::fork();
  if (child == 0) {
    ::usleep(200'000);
    ::kill(::getppid(), SIGSTOP);
    ::usleep(4'000'000);
    ::kill(::getppid(), SIGCONT);
    ::_exit(0);
  }
  EXPECT_THAT((*session)->Send(Ids(0, 1)), StatusIs(absl::StatusCode::kUnavailable));
  // 4 s did not count.
  EXPECT_GE(absl::Now() - began, absl::Seconds(5.5));
  ::waitpid(child, nullptr, 0);
}

// How a login to the reply endpoint that `open` names ends, and the socket that it came over.
std::pair<ZmqSocket, ZmqEvent::Kind> LogIn(const ZmqContext& context, const OpenFrame& open,
                                           const std::string& key, const std::string& feeder) {
  const std::string node = absl::StrCat("node/", open.node_nonce);
  const SocketOptions options =
      SocketOptions::Plain(node, NodePassword(key, open.reply.challenge, feeder, node));
  ZmqSocket push = *ZmqSocket::Create(context, SocketType::kPush, options);
  EXPECT_THAT(push.StartMonitor(), IsOk());
  EXPECT_THAT(push.Connect(open.reply.endpoint), IsOk());
  ZmqEvent::Kind kind = ZmqEvent::Kind::kConnected;
  EXPECT_TRUE(Eventually([&] {
    const auto event = push.NextEvent();
    if (!event.ok() || !event->has_value()) return false;
    kind = (*event)->kind;
    return kind == ZmqEvent::Kind::kHandshakeSucceeded ||
           kind == ZmqEvent::Kind::kHandshakeFailedAuth;
  }));
  return {std::move(push), kind};
}

// Anybody on this host can connect to a reply endpoint, in any name.
TEST_F(FeederTest, AStrangersLoginInTheNodesNameDoesNotEndItsSession) {
  auto feeder = Feeder::Start({.open_timeout = absl::Minutes(10)});
  ASSERT_THAT(feeder, IsOk());
  FakeFeedNode node("worker:1", FakeFeedNode::Mute(), "", /*reply_key=*/"a stranger's");
  auto session = (*feeder)->OpenSession(node.target(), Options());
  ASSERT_THAT(session, IsOk());
  ASSERT_TRUE(node.WaitFor([](const auto& events) { return !events.empty(); }));
  const OpenFrame open = node.events()[0].open;
  const auto context = ZmqContext::Create();
  ASSERT_THAT(context, IsOk());
  EXPECT_EQ(LogIn(*context, open, "a stranger's", (*feeder)->principal()).second,
            ZmqEvent::Kind::kHandshakeFailedAuth);
  auto [own, kind] = LogIn(*context, open, node.target().key, (*feeder)->principal());
  ASSERT_EQ(kind, ZmqEvent::Kind::kHandshakeSucceeded);
  const std::string credit = EncodeCredit({.limit = 1 << 20, .released = 0});
  std::vector<ZmqMessage> frame;
  frame.push_back(
      ZmqMessage::Copy(EncodeHeader({.type = FrameType::kCredit,
                                     .session = (*session)->id(),
                                     .metadata_length = static_cast<uint32_t>(credit.size())})));
  frame.push_back(ZmqMessage::Copy(credit));
  EXPECT_THAT(own.Send(std::move(frame)), IsOkAndHolds(true));
  EXPECT_THAT((*session)->Send(Ids(0, 1)), IsOk());
}

TEST_F(FeederTest, AWrongKeyIsUnauthenticatedAtOnce) {
  FakeFeedNode node("worker:1", FakeFeedNode::ReadAll());
  FeedTarget target = node.target();
  target.key = "stolen";
  const absl::Time began = absl::Now();
  auto session = Open(target, Options());
  EXPECT_THAT(session->Send(Ids(0, 1)),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("worker:1")));
  EXPECT_EQ(session->state().end, SessionEnd::kRefused);
  EXPECT_THAT(absl::Now() - began, Lt(absl::Seconds(3)));
  EXPECT_TRUE(node.events().empty());
}

TEST_F(FeederTest, NobodyAtTheEndpointBreaksTheSession) {
  FeedTarget target;
  {
    FakeFeedNode node("worker:1", FakeFeedNode::ReadAll());
    target = node.target();
  }
  auto session = Open(target, Options());
  EXPECT_THAT(session->Send(Ids(0, 1)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("nobody listens")));
  EXPECT_EQ(session->state().end, SessionEnd::kBroken);
}

TEST_F(FeederTest, WithoutIpcTheFeederGoesByTcp) {
  FakeFeedNode node("worker:1", FakeFeedNode::ReadAll());
  FeedTarget target = node.target();
  target.ipc_endpoint = "ipc://@millrace-of-another-namespace";
  auto session = Open(target, Options());
  EXPECT_THAT(session->Send(Ids(0, 5)), IsOk());
  EXPECT_THAT(session->Finish(5), IsOk());
  EXPECT_THAT(session->WaitDone(), IsOk());
  EXPECT_THAT(node.events()[0].open.reply.endpoint, HasSubstr("tcp://127.0.0.1:"));
}

TEST_F(FeederTest, TheDeathOfTheNodeBreaksItsSessionsOnly) {
  FakeFeedNode doomed("worker:1", FakeFeedNode::ReceiveOnly());
  FakeFeedNode other("worker:2", FakeFeedNode::ReceiveOnly());
  auto a = Open(doomed.target(), Options());
  auto b = Open(other.target(), Options());
  for (const auto& session : {a, b}) {
    ASSERT_THAT(session->Send(Ids(0, 10)), IsOk());
    ASSERT_THAT(session->Finish(10), IsOk());
    ASSERT_THAT(session->WaitReceived(), IsOk());
  }
  doomed.Kill();
  EXPECT_THAT(a->WaitDone(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("lost")));
  EXPECT_EQ(a->state().end, SessionEnd::kBroken);
  EXPECT_EQ(b->state().end, SessionEnd::kOpen);
  other.Post([](Session& s) { s.Done(10, 0); });
  EXPECT_THAT(b->WaitDone(), IsOk());
}

TEST_F(FeederTest, WhatANodeSaidBeforeItDiedIsHeard) {
  for (int i = 0; i < 20; ++i) {
    FakeFeedNode node("worker:1", FakeFeedNode::ReceiveOnly());
    auto session = Open(node.target(), Options());
    ASSERT_THAT(session->Send(Ids(0, 10)), IsOk());
    ASSERT_THAT(session->Finish(10), IsOk());
    ASSERT_THAT(session->WaitReceived(), IsOk());
    node.Post([](Session& s) { s.Error(absl::InternalError("out of luck")); });
    // LINGER 0 drops what is not on its way: let it be written, as a real node does before it
    // exits.
    ASSERT_THAT(session->WaitDone(), StatusIs(absl::StatusCode::kInternal, HasSubstr("luck")));
    node.Kill();
    EXPECT_EQ(session->state().end, SessionEnd::kError);
  }
}

// The two connections of a node that exits do not break in the order in which it used them.
TEST_F(FeederTest, RepliesUnderWayAreHeardAfterTheDataConnectionBroke) {
  auto feeder = Feeder::Start({.drain_timeout = absl::Seconds(20)});
  ASSERT_THAT(feeder, IsOk());
  FakeFeedNode node("worker:1", FakeFeedNode::ReceiveOnly());
  auto session = (*feeder)->OpenSession(node.target(), Options());
  ASSERT_THAT(session, IsOk());
  ASSERT_THAT((*session)->Send(Ids(0, 10)), IsOk());
  ASSERT_THAT((*session)->Finish(10), IsOk());
  ASSERT_THAT((*session)->WaitReceived(), IsOk());
  node.CloseData();
  // Long enough for the event to be handled, if not: the test passes for another reason.
  Notification never;
  EXPECT_FALSE(never.WaitForNotificationWithTimeout(absl::Milliseconds(50)));
  node.Post([](Session& s) { s.Done(10, 0); });
  EXPECT_THAT((*session)->WaitDone(), IsOk());
  // And when the way back is gone too, there is nothing to wait for.
  FakeFeedNode silent("worker:2", FakeFeedNode::ReceiveOnly());
  auto other = (*feeder)->OpenSession(silent.target(), Options());
  ASSERT_THAT((*other)->Send(Ids(0, 10)), IsOk());
  ASSERT_THAT((*other)->Finish(10), IsOk());
  ASSERT_THAT((*other)->WaitReceived(), IsOk());
  const absl::Time began = absl::Now();
  silent.Kill();
  EXPECT_THAT((*other)->WaitDone(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(absl::Now() - began, Lt(absl::Seconds(10)));
}

TEST_F(FeederTest, ErrorsOfTheNodeKeepTheirCodeAndNameThePlace) {
  FakeFeedNode node("worker:1", [](Session& session, FrameType) {
    session.Error(absl::NotFoundError("no queue 'input', there are: images"));
  });
  auto session = Open(node.target(), Options());
  EXPECT_THAT(session->Send(Ids(0, 1)),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("worker:1, partition 3 (queue 'input')"),
                             HasSubstr("there are: images"))));
}

TEST_F(FeederTest, ANodeThatRefusedASessionIsFedByTheNext) {
  bool refuses = true;
  FakeFeedNode node("worker:1", [&refuses](Session& session, FrameType type) {
    if (std::exchange(refuses, false)) {
      session.Error(absl::FailedPreconditionError("this is another attempt"));
    } else {
      FakeFeedNode::ReadAll()(session, type);
    }
  });
  auto refused = Open(node.target(), Options());
  EXPECT_THAT(refused->Send(Ids(0, 1)), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                 HasSubstr("this is another attempt")));
  auto session = Open(node.target(), Options());
  ASSERT_THAT(session->Send(Ids(0, 1)), IsOk());
  EXPECT_THAT(session->Finish(1), IsOk());
  EXPECT_THAT(session->WaitDone(), IsOk());
  EXPECT_EQ(feeder_->stats().bad_frames, 0);
}

TEST_F(FeederTest, TerminatedEndsTheSession) {
  FakeFeedNode node("worker:1", FakeFeedNode::ReceiveOnly());
  auto session = Open(node.target(), Options());
  ASSERT_THAT(session->Send(Ids(0, 10)), IsOk());
  ASSERT_TRUE(node.WaitFor([](const auto& events) { return events.size() >= 3; }));
  node.Post([](Session& s) {
    s.Ack(4);
    s.Terminated();
  });
  EXPECT_THAT(session->WaitReady(std::nullopt), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(session->state().end, SessionEnd::kTerminated);
  EXPECT_EQ(session->state().acked_rows, 4);
  EXPECT_EQ(session->state().sent_rows, 4);  // no others were used
}

TEST_F(FeederTest, TerminatedMaySayThatRowsAreInHand) {
  FakeFeedNode node("worker:1", FakeFeedNode::ReceiveOnly());
  for (const int64_t row : {6, 11}) {
    auto session = Open(node.target(), Options());
    ASSERT_THAT(session->Send(Ids(0, 10)), IsOk());
    node.Post([row](Session& s) {
      s.Ack(4);
      s.Terminated(row);
    });
    EXPECT_FALSE(session->WaitReady(std::nullopt).ok());
    const bool sent = row <= 10;
    EXPECT_EQ(session->state().end, sent ? SessionEnd::kTerminated : SessionEnd::kBadPeer);
    if (sent) EXPECT_EQ(session->state().sent_rows, 6);
    EXPECT_FALSE(session->Finish(10).ok());
  }
}

TEST_F(FeederTest, AbortEndsAWaitAtOnceAndTellsTheNode) {
  FakeFeedNode node("worker:1", FakeFeedNode::ReceiveOnly());
  auto session = Open(node.target(), Options());
  ASSERT_THAT(session->Send(Ids(0, 10)), IsOk());
  ASSERT_THAT(session->Finish(10), IsOk());
  absl::Time ended;
  Thread waiter("waiter", [&] {
    EXPECT_THAT(session->WaitDone(), StatusIs(absl::StatusCode::kCancelled, "stop it"));
    ended = absl::Now();
  });
  ASSERT_THAT(session->WaitReceived(), IsOk());
  const absl::Time aborted = absl::Now();
  session->Abort(absl::CancelledError("stop it"));
  waiter.Join();
  EXPECT_THAT(ended - aborted, Lt(absl::Milliseconds(500)));
  EXPECT_TRUE(node.WaitFor([](const auto& events) {
    return events.back().type == FrameType::kAbort &&
           events.back().abort->code == absl::StatusCode::kCancelled &&
           events.back().abort->message == "stop it";
  }));
}

TEST_F(FeederTest, StopEndsEverySessionAndLaterOnesAreRefused) {
  FakeFeedNode node("worker:1", FakeFeedNode::ReceiveOnly());
  auto session = Open(node.target(), Options());
  ASSERT_THAT(session->Send(Ids(0, 10)), IsOk());
  feeder_->Stop();
  feeder_->Stop();
  EXPECT_THAT(session->Send(Ids(10, 10)),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("stopped")));
  EXPECT_THAT(feeder_->OpenSession(node.target(), Options()),
              StatusIs(absl::StatusCode::kCancelled));
  feeder_.reset();
  EXPECT_EQ(session->state().end, SessionEnd::kAborted) << "a session may outlive its feeder";
}

TEST_F(FeederTest, BadOptionsAreInvalid) {
  FakeFeedNode node("worker:1", FakeFeedNode::Mute());
  SessionOptions options = Options();
  options.feed_id = "";
  EXPECT_THAT(feeder_->OpenSession(node.target(), options),
              StatusIs(absl::StatusCode::kInvalidArgument));
  FeedTarget nowhere = node.target();
  nowhere.ipc_endpoint = nowhere.tcp_endpoint = "";
  EXPECT_THAT(feeder_->OpenSession(nowhere, Options()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("worker:1")));
  FeedTarget gone = node.target();
  gone.state = FeedTarget::State::kRestarting;
  EXPECT_THAT(feeder_->OpenSession(gone, Options()),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

// -------------------------------------------------------------------------------- feed_timeout

TEST_F(FeederTest, NoAcknowledgementForFeedTimeoutSaysWhatIsMissing) {
  FakeFeedNode node("worker:1", FakeFeedNode::ReceiveOnly());
  SessionOptions options = Options();
  options.feed_timeout = absl::Milliseconds(200);
  auto session = Open(node.target(), options);
  ASSERT_THAT(session->Send(Ids(0, 128)), IsOk());
  ASSERT_THAT(session->Finish(128), IsOk());
  ASSERT_THAT(session->WaitReceived(), IsOk());
  node.Post([](Session& s) { s.Ack(64); });
  EXPECT_THAT(session->WaitDone(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       "worker:1 acknowledged no row of partition 3 (queue 'input') for 200ms: 128 "
                       "rows received, 64 acknowledged; the program is not calling NextBatch"));
  EXPECT_EQ(session->state().end, SessionEnd::kOpen) << "a timeout does not end the session";
}

TEST_F(FeederTest, ProgressOfAnyKindPutsTheTimeoutOff) {
  FakeFeedNode node("worker:1", FakeFeedNode::ReceiveOnly());
  SessionOptions options = Options();
  options.feed_timeout = absl::Milliseconds(400);
  auto session = Open(node.target(), options);
  ASSERT_THAT(session->Send(Ids(0, 10)), IsOk());
  ASSERT_THAT(session->Finish(10), IsOk());
  ASSERT_THAT(session->WaitReceived(), IsOk());
  const absl::Time began = absl::Now();
  Notification done;
  Thread acker("acker", [&] {
    for (int64_t row = 1; row < 10; ++row) {
      if (done.WaitForNotificationWithTimeout(absl::Milliseconds(100))) return;
      node.Post([row](Session& s) { s.Ack(row); });
    }
    node.Post([](Session& s) { s.Done(10, 0); });
  });
  EXPECT_THAT(session->WaitDone(), IsOk());
  done.Notify();
  acker.Join();
  EXPECT_GT(absl::Now() - began, absl::Milliseconds(800));
}

TEST_F(FeederTest, WaitCountsOnlyIfItAdvances) {
  FakeFeedNode node("worker:1", FakeFeedNode::Mute());
  SessionOptions options = Options();
  options.feed_timeout = absl::Milliseconds(300);
  auto session = Open(node.target(), options);
  Notification done;
  std::atomic<int64_t> progress{0};
  Thread waiter("waiter", [&] {
    ASSERT_TRUE(node.WaitFor([](const auto& events) { return events.size() >= 1; }));
    // Nine that count, then only repetitions.
    for (int i = 0; !done.WaitForNotificationWithTimeout(absl::Milliseconds(70)); ++i) {
      if (i < 9) ++progress;
      node.Post([p = progress.load()](Session& s) { s.Wait(2, p); });
    }
  });
  const absl::Time began = absl::Now();
  EXPECT_THAT(session->Send(Ids(0, 1)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("worker:1 did not begin to read partition 3"),
                             HasSubstr("2 sessions are before it"))));
  EXPECT_EQ(progress.load(), 9);
  EXPECT_GT(absl::Now() - began, absl::Milliseconds(700));
  done.Notify();
}

TEST_F(FeederTest, InferenceWithoutResultsTimesOut) {
  FakeFeedNode node("worker:1", FakeFeedNode::ReceiveOnly());
  SessionOptions options = Options(FeedMode::kInference);
  options.feed_timeout = absl::Milliseconds(200);
  auto session = Open(node.target(), options);
  ASSERT_THAT(session->Send(Ids(0, 64)), IsOk());
  EXPECT_THAT(session->NextResult(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("worker:1 received 64 rows of partition 3 (queue 'input') and "
                                 "returned none for 200ms")));
}

// ------------------------------------------------------------------------------------- results

TEST_F(FeederTest, ResultsComeBackInOrder) {
  FakeFeedNode node("worker:1", FakeFeedNode::Echo());
  auto session = Open(node.target(), Options(FeedMode::kInference));
  ASSERT_THAT(session->Send(Ids(0, 10)), IsOk());
  ASSERT_THAT(session->Send(Ids(10, 5)), IsOk());
  ASSERT_THAT(session->Finish(15), IsOk());
  auto first = session->NextResult();
  ASSERT_THAT(first, IsOk());
  EXPECT_TRUE((*first)->Equals(Ids(0, 10)));
  auto second = session->NextResult();
  ASSERT_THAT(second, IsOk());
  EXPECT_TRUE((*second)->Equals(Ids(10, 5)));
  auto end = session->NextResult();
  ASSERT_THAT(end, IsOk());
  EXPECT_FALSE(end->has_value());
  EXPECT_EQ(session->state().end, SessionEnd::kDone);
  EXPECT_EQ(session->unread_result_bytes(), 0);
}

}  // namespace
}  // namespace millrace
