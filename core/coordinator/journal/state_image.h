// File: core/coordinator/journal/state_image.h
//
// What the records of a journal come to: the last of each, and no more.
//
// Defines: FeedImage, StateImage.

#ifndef CORE_COORDINATOR_JOURNAL_STATE_IMAGE_H_
#define CORE_COORDINATOR_JOURNAL_STATE_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/proto/state.pb.h"

namespace millrace {

// A Train call.
struct FeedImage {
  v1::FeedRecord feed;
  std::map<int64_t, v1::SessionRecord> begun;  // by partition: of those that are not done
  std::map<int64_t, v1::DoneRecord> done;
  std::optional<v1::ResultRecord> result;  // it has returned: `begun` and `done` are empty
};

// Ownership: values only. Thread safety: not thread-safe. Blocking: never.
class StateImage {
 public:
  static constexpr size_t kMaxAnswers = 64;   // of each slot and kind
  static constexpr size_t kMaxFeedEnds = 64;  // as the coordinator repeats

  // Records of a feed that is not known, and what is newer than this program, are left out.
  void Apply(const v1::StateRecord& record);
  // Records that come to this image, but for the DriverRecord.
  [[nodiscard]] std::vector<v1::StateRecord> Records() const;

  [[nodiscard]] const v1::DriverRecord& driver() const { return driver_; }
  [[nodiscard]] const std::map<int, v1::SlotRecord>& slots() const { return slots_; }
  [[nodiscard]] uint64_t spec_epoch() const { return spec_epoch_; }
  [[nodiscard]] const std::map<std::string, std::string>& kv() const { return kv_; }
  // Of a slot's present attempt, oldest first.
  [[nodiscard]] const std::map<int, std::deque<v1::AnswerRecord>>& answers() const {
    return answers_;
  }
  [[nodiscard]] const std::deque<v1::FeedEnd>& feed_ends() const { return feed_ends_; }
  [[nodiscard]] const std::vector<std::string>& ended_queues() const { return ended_queues_; }
  // Unset: nobody asked for the end.
  [[nodiscard]] const std::optional<v1::CancelRecord>& cancel() const { return cancel_; }
  // In the order in which they were opened.
  [[nodiscard]] const std::vector<FeedImage>& feeds() const { return feeds_; }

 private:
  // A call that has not returned; null otherwise.
  FeedImage* Find(const std::string& feed_id);
  void ApplyEnd(const v1::FeedEnd& end);
  void AddAnswer(const v1::AnswerRecord& answer);

  v1::DriverRecord driver_;
  std::map<int, v1::SlotRecord> slots_;  // by executor id
  uint64_t spec_epoch_ = 0;
  std::map<std::string, std::string> kv_;
  std::map<int, std::deque<v1::AnswerRecord>> answers_;  // by executor id
  std::deque<v1::FeedEnd> feed_ends_;
  std::vector<std::string> ended_queues_;
  std::optional<v1::CancelRecord> cancel_;
  std::vector<FeedImage> feeds_;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_JOURNAL_STATE_IMAGE_H_
