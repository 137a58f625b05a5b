#include "testing/compatibility/feed_conversation.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "feed/feeder/fake_feed_node.h"
#include "feed/feeder/feeder.h"
#include "feed/receiver/raw_feeder.h"
#include "feed/receiver/receiver.h"
#include "millrace/batch_builder.h"
#include "millrace/data_feed.h"
#include "millrace/record_batch.h"
#include "millrace/status_macros.h"

namespace millrace::compatibility {
namespace {

constexpr char kNonce[] = "5b0c9e1f22d3a4b6";
constexpr int64_t kRows = 3;

RecordBatch Rows() {
  return *BatchBuilder()
              .AddColumn("id", std::vector<int64_t>{0, 1, 2})
              .AddColumn("x", std::vector<float>{0.5F, 1.5F, 2.5F})
              .AddStrings("name", std::vector<std::string>{"a", "", "c"})
              .Build();
}

using Parts = std::vector<std::string>;

std::string Pack(const Parts& parts) {
  std::string packed;
  for (const std::string& part : parts) {
    const auto size = static_cast<uint32_t>(part.size());
    packed.append(reinterpret_cast<const char*>(&size), sizeof(size));
    packed += part;
  }
  return packed;
}

Parts Unpack(const std::string& packed) {
  Parts parts;
  uint32_t size = 0;
  for (size_t at = 0; at + sizeof(size) <= packed.size(); at += size) {
    std::memcpy(&size, packed.data() + at, sizeof(size));
    at += sizeof(size);
    parts.push_back(packed.substr(at, size));
  }
  return parts;
}

Parts PartsOf(const RawFeeder::Reply& reply) {
  Parts parts = {EncodeHeader(reply.header)};
  if (!reply.metadata.empty()) parts.push_back(reply.metadata);
  parts.insert(parts.end(), reply.body.begin(), reply.body.end());
  return parts;
}

// The program of a node: takes the rows, and answers them with themselves.
absl::Status TakeRows(FeedMode mode, DataFeed* feed, FeedReceiver* node) {
  node->FeedEnd("f1", /*aborted=*/false);
  MILLRACE_ASSIGN_OR_RETURN(const Batch batch, feed->NextBatch(kRows));
  if (batch.num_rows() != kRows || batch.column<int64_t>("id")[2] != 2 ||
      batch.column<float>("x")[1] != 1.5F) {
    return absl::InternalError("these are not the rows");
  }
  if (mode == FeedMode::kInference) MILLRACE_RETURN_IF_ERROR(feed->BatchResults(Rows()));
  return node->Finish(absl::OkStatus());  // an exit with 0 uses what was read
}

// With a node in this process.
absl::Status Feed(FeedMode mode, const FakeFeedNode& node) {
  MILLRACE_ASSIGN_OR_RETURN(const auto feeder, Feeder::Start({}));
  MILLRACE_ASSIGN_OR_RETURN(const auto session,
                            feeder->OpenSession(node.target(), {.feed_id = "f1", .mode = mode}));
  MILLRACE_RETURN_IF_ERROR(session->Send(Rows()));
  MILLRACE_RETURN_IF_ERROR(session->Finish(kRows));
  int64_t results = 0;
  while (mode == FeedMode::kInference) {
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<RecordBatch> batch, session->NextResult());
    if (!batch.has_value()) break;
    if (!batch->Equals(Rows())) return absl::InternalError("these are not the results");
    results += batch->num_rows();
  }
  if (mode == FeedMode::kInference && results != kRows) {
    return absl::InternalError(absl::StrCat(results, " rows of results"));
  }
  return session->WaitDone();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> FeederMessages(FeedMode mode) {
  const FakeFeedNode node("worker:0",
                          mode == FeedMode::kTrain ? FakeFeedNode::ReadAll() : FakeFeedNode::Echo(),
                          kNonce);
  MILLRACE_RETURN_IF_ERROR(Feed(mode, node));
  std::vector<std::string> messages;
  for (const Parts& parts : node.messages()) messages.push_back(Pack(parts));
  return messages;
}

absl::StatusOr<RecordedCall> NodeMessages(FeedMode mode, const std::vector<std::string>& feeder) {
  MILLRACE_ASSIGN_OR_RETURN(
      const auto node,
      FeedReceiver::Start({.node_name = "worker:0", .nonce = kNonce, .shared_memory = false}));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<DataFeed> feed,
                            node->GetDataFeed({.train_mode = mode == FeedMode::kTrain}));
  RawFeeder raw(node->endpoints().ipc, node->endpoints().key);
  if (!raw.Connect()) return absl::UnavailableError("the node does not let the feeder in");
  RecordedCall call = {.method = absl::StrCat("feed/", FeedModeName(mode))};
  uint64_t session = 0;
  const auto await = [&](FrameType last) {
    std::optional<RawFeeder::Reply> reply;
    do {
      reply = raw.Await(session);
      if (!reply.has_value()) return false;
      call.messages.push_back({false, Pack(PartsOf(*reply))});
    } while (reply->header.type != last && reply->header.type != FrameType::kError);
    return reply->header.type == last;
  };
  for (const std::string& message : feeder) {
    Parts parts = Unpack(message);
    MILLRACE_ASSIGN_OR_RETURN(FrameHeader header, DecodeHeader(parts.front()));
    call.messages.push_back({true, message});
    if (header.type != FrameType::kOpen) {
      raw.SendParts(parts);
      continue;
    }
    // The same but for where its answers go.
    session = header.session;
    MILLRACE_ASSIGN_OR_RETURN(OpenFrame open, DecodeOpen(parts.at(1)));
    open.reply = raw.Open(kNonce).reply;
    raw.Send(header, EncodeOpen(open));
    if (!await(FrameType::kCredit)) return absl::InternalError("no credit");
  }
  if (!await(FrameType::kReceived)) return absl::InternalError("the rows did not arrive");
  MILLRACE_RETURN_IF_ERROR(TakeRows(mode, feed.get(), node.get()));
  if (!await(FrameType::kDone)) return absl::InternalError("the rows were not used");
  return call;
}

absl::Status FeedRecordedNode(FeedMode mode, const RecordedCall& call) {
  // Its answer to OPEN, and what it said after END_PARTITION.
  std::vector<Parts> first;
  std::vector<Parts> rest;
  int of_feeder = 0;
  for (const RecordedMessage& message : call.messages) {
    if (message.from_client) {
      ++of_feeder;
    } else {
      (of_feeder == 1 ? first : rest).push_back(Unpack(message.bytes));
    }
  }
  const FakeFeedNode node(
      "worker:0",
      [&](FakeFeedNode::Session& session, FrameType type) {
        if (type != FrameType::kOpen && type != FrameType::kEndPartition) return;
        for (Parts parts : type == FrameType::kOpen ? first : rest) {
          FrameHeader header = DecodeHeader(parts.front()).value_or(FrameHeader());
          header.session = session.id;  // the feeder's choice
          parts.front() = EncodeHeader(header);
          session.Raw(parts);
        }
      },
      kNonce);
  return Feed(mode, node);
}

std::string WhatItSaid(const RecordedCall& call) {
  int64_t received = 0;
  int64_t acked = 0;
  std::string results;
  std::string end;
  for (const RecordedMessage& message : call.messages) {
    if (message.from_client) continue;
    const Parts parts = Unpack(message.bytes);
    switch (DecodeHeader(parts.front()).value_or(FrameHeader()).type) {
      case FrameType::kReceived:
        received = DecodeRow(parts.at(1)).value_or(RowFrame()).row;
        break;
      case FrameType::kAck:
        acked = DecodeRow(parts.at(1)).value_or(RowFrame()).row;
        break;
      case FrameType::kResult:
        for (size_t i = 1; i < parts.size(); ++i) {
          absl::StrAppend(&results, " ", absl::BytesToHexString(parts[i]));
        }
        break;
      case FrameType::kDone: {
        const DoneFrame done = DecodeDone(parts.at(1)).value_or(DoneFrame());
        end = absl::StrCat("done ", done.rows_in, " in ", done.rows_out, " out");
        break;
      }
      default:
        break;
    }
  }
  return absl::StrCat("received ", received, ", acked ", acked, ", ", end, results);
}

}  // namespace millrace::compatibility
