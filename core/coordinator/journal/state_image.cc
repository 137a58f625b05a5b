#include "core/coordinator/journal/state_image.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace millrace {

FeedImage* StateImage::Find(const std::string& feed_id) {
  const auto found = std::find_if(feeds_.rbegin(), feeds_.rend(), [&](const FeedImage& feed) {
    return feed.feed.feed_id() == feed_id;
  });
  return found == feeds_.rend() || found->result.has_value() ? nullptr : &*found;
}

// Of "f" or, in later rounds, "f.<n>".
void StateImage::ApplyEnd(const v1::FeedEnd& end) {
  for (auto feed = feeds_.rbegin(); feed != feeds_.rend(); ++feed) {
    absl::string_view rest = end.feed_id();
    if (!absl::ConsumePrefix(&rest, feed->feed.feed_id())) continue;
    int64_t round = 0;
    if (!rest.empty() && (!absl::ConsumePrefix(&rest, ".") || !absl::SimpleAtoi(rest, &round))) {
      continue;
    }
    feed->feed.set_rounds(std::max(feed->feed.rounds(), round + 1));
    feed->feed.set_aborted(feed->feed.aborted() || end.aborted());
    return;
  }
}

void StateImage::AddAnswer(const v1::AnswerRecord& answer) {
  std::deque<v1::AnswerRecord>& answers = answers_[answer.executor_id()];
  if (!answers.empty() && answers.front().attempt() != answer.attempt()) answers.clear();
  answers.push_back(answer);
  const auto same_kind = [&](const v1::AnswerRecord& other) {
    return other.has_kv() == answer.has_kv();
  };
  if (std::count_if(answers.begin(), answers.end(), same_kind) > int64_t{kMaxAnswers}) {
    answers.erase(std::find_if(answers.begin(), answers.end(), same_kind));
  }
}

void StateImage::Apply(const v1::StateRecord& record) {
  using Case = v1::StateRecord::RecordCase;
  switch (record.record_case()) {
    case Case::kDriver:
      driver_ = record.driver();
      break;
    case Case::kSlot:
      slots_[record.slot().executor_id()] = record.slot();
      break;
    case Case::kSpecEpoch:
      spec_epoch_ = record.spec_epoch();
      break;
    case Case::kKv:
      if (record.kv().has_value()) {
        kv_[record.kv().key()] = record.kv().value();
      } else {
        kv_.erase(record.kv().key());
      }
      break;
    case Case::kAnswer:
      AddAnswer(record.answer());
      break;
    case Case::kFeedEnd:
      feed_ends_.push_back(record.feed_end());
      if (feed_ends_.size() > kMaxFeedEnds) feed_ends_.pop_front();
      ApplyEnd(record.feed_end());
      break;
    case Case::kEndFeed:
      ended_queues_.push_back(record.end_feed().queue());
      break;
    case Case::kFeed:
      feeds_.push_back({.feed = record.feed()});
      break;
    case Case::kSession:
      if (FeedImage* feed = Find(record.session().feed_id()); feed != nullptr) {
        feed->begun[record.session().partition()] = record.session();
      }
      break;
    case Case::kDone:
      if (FeedImage* feed = Find(record.done().feed_id()); feed != nullptr) {
        feed->begun.erase(record.done().partition());
        feed->done[record.done().partition()] = record.done();
      }
      break;
    case Case::kResult:
      if (FeedImage* feed = Find(record.result().feed_id()); feed != nullptr) {
        feed->begun.clear();
        feed->done.clear();
        feed->result = record.result();
      }
      break;
    case Case::kCancel:
      if (!cancel_.has_value() || record.cancel().by_operator()) cancel_ = record.cancel();
      break;
    case Case::RECORD_NOT_SET:
      break;
  }
}

std::vector<v1::StateRecord> StateImage::Records() const {
  std::vector<v1::StateRecord> records;
  const auto add = [&records]() -> v1::StateRecord& { return records.emplace_back(); };
  for (const auto& [id, slot] : slots_) *add().mutable_slot() = slot;
  add().set_spec_epoch(spec_epoch_);
  for (const auto& [key, value] : kv_) {
    v1::KvRecord& kv = *add().mutable_kv();
    kv.set_key(key);
    kv.set_value(value);
  }
  for (const auto& [id, answers] : answers_) {
    for (const v1::AnswerRecord& answer : answers) *add().mutable_answer() = answer;
  }
  for (const v1::FeedEnd& end : feed_ends_) *add().mutable_feed_end() = end;
  for (const std::string& queue : ended_queues_) add().mutable_end_feed()->set_queue(queue);
  if (cancel_.has_value()) *add().mutable_cancel() = *cancel_;
  for (const FeedImage& feed : feeds_) {
    *add().mutable_feed() = feed.feed;
    for (const auto& [partition, session] : feed.begun) *add().mutable_session() = session;
    for (const auto& [partition, done] : feed.done) *add().mutable_done() = done;
    if (feed.result.has_value()) *add().mutable_result() = *feed.result;
  }
  return records;
}

}  // namespace millrace
