#include "feed/receiver/used_rows.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace millrace {

absl::string_view CallOf(absl::string_view feed_id) {
  const size_t dot = feed_id.rfind('.');
  if (dot == absl::string_view::npos || dot + 1 == feed_id.size()) return feed_id;
  const absl::string_view number = feed_id.substr(dot + 1);
  return std::all_of(number.begin(), number.end(), absl::ascii_isdigit) ? feed_id.substr(0, dot)
                                                                        : feed_id;
}

absl::Status UsedRows::LeaveOut(const FeedPosition& position) {
  if (!reading_.empty()) {
    return absl::FailedPreconditionError(
        "rows of the queue were read already; a position is resumed before the first NextBatch");
  }
  for (const FeedRows& rows : position.rows) {
    if (rows.data_epoch < 0 || rows.partition < 0 || rows.first_row < 0 ||
        rows.end_row <= rows.first_row) {
      return absl::InvalidArgumentError(
          absl::StrCat("a position with the rows ", rows.first_row, " to ", rows.end_row,
                       " of partition ", rows.partition, " in epoch ", rows.data_epoch,
                       ", which no feed has; resume what Position() returned"));
    }
  }
  const absl::string_view call =
      position.feed_id.empty() ? absl::string_view(first_call_) : CallOf(position.feed_id);
  for (const FeedRows& rows : position.rows) Add(rows, &left_out_[std::string(call)]);
  return absl::OkStatus();
}

void UsedRows::Begin(absl::string_view call) {
  if (!first_call_.empty()) return;
  first_call_ = std::string(call);
  if (const auto first = left_out_.extract(""); !first.empty()) {
    AddAll(first.mapped(), &left_out_[first_call_]);
  }
}

void UsedRows::Read(absl::string_view feed_id) {
  const absl::string_view call = CallOf(feed_id);
  if (call == reading_) return;
  Begin(call);
  ended_.erase(std::string(call));
  for (const std::string& over : std::exchange(ended_, {})) {
    given_.erase(over);
    left_out_.erase(over);
  }
  reading_ = std::string(call);
  given_.try_emplace(reading_);
}

void UsedRows::End(absl::string_view feed_id, bool aborted) {
  const absl::string_view call = CallOf(feed_id);
  if (!aborted) Begin(call);
  if (call == first_call_ || given_.contains(call) || left_out_.contains(call)) {
    ended_.emplace(call);
  }
}

UsedRows::Stretch UsedRows::FirstUnused(const OpenFrame& open, int64_t row, int64_t end) const {
  const auto call = left_out_.find(reading_);
  return call == left_out_.end() ? Stretch{row, end} : FirstUnused(call->second, open, row, end);
}

int64_t UsedRows::CountUnused(const OpenFrame& open, int64_t row, int64_t end) const {
  auto call = left_out_.find(CallOf(open.feed_id));
  if (call == left_out_.end() && first_call_.empty()) call = left_out_.find("");
  if (call == left_out_.end()) return end - row;
  int64_t count = 0;
  while (row < end) {
    const Stretch stretch = FirstUnused(call->second, open, row, end);
    count += stretch.end - stretch.first;
    row = stretch.end;
  }
  return count;
}

UsedRows::Stretch UsedRows::FirstUnused(const Call& left_out, const OpenFrame& open, int64_t row,
                                        int64_t end) {
  const auto partition = left_out.find({open.data_epoch, open.partition});
  if (partition == left_out.end()) return {row, end};
  const Stretches& stretches = partition->second;
  auto next = stretches.upper_bound(row);
  if (next != stretches.begin()) row = std::clamp(std::prev(next)->second, row, end);
  return {row, next == stretches.end() ? end : std::clamp(next->first, row, end)};
}

void UsedRows::Add(const OpenFrame& open, int64_t row) {
  const auto call = given_.find(CallOf(open.feed_id));
  if (row <= open.first_row || call == given_.end()) return;
  Add({open.data_epoch, open.partition, open.first_row, row}, &call->second);
}

int64_t UsedRows::FirstNotGiven(const OpenFrame& open) const {
  const auto call = given_.find(CallOf(open.feed_id));
  if (call == given_.end()) return open.first_row;
  return FirstUnused(call->second, open, open.first_row, std::numeric_limits<int64_t>::max()).first;
}

FeedPosition UsedRows::Position() const {
  FeedPosition position{.feed_id = reading_, .rows = {}};
  if (reading_.empty() && !left_out_.empty()) position.feed_id = left_out_.begin()->first;
  Call all;
  for (const auto* calls : {&given_, &left_out_}) {
    if (const auto call = calls->find(position.feed_id); call != calls->end()) {
      AddAll(call->second, &all);
    }
  }
  for (const auto& [partition, stretches] : all) {
    for (const auto& [row, end] : stretches) {
      position.rows.push_back({partition.first, partition.second, row, end});
    }
  }
  return position;
}

void UsedRows::AddAll(const Call& rows, Call* call) {
  for (const auto& [partition, stretches] : rows) {
    for (const auto& [row, end] : stretches) {
      Add({partition.first, partition.second, row, end}, call);
    }
  }
}

void UsedRows::Add(const FeedRows& rows, Call* call) {
  Stretches& stretches = (*call)[{rows.data_epoch, rows.partition}];
  int64_t first = rows.first_row, end = rows.end_row;
  auto next = stretches.upper_bound(first);
  if (next != stretches.begin() && std::prev(next)->second >= first) --next;
  while (next != stretches.end() && next->first <= end) {
    first = std::min(first, next->first);
    end = std::max(end, next->second);
    next = stretches.erase(next);
  }
  stretches[first] = end;
}

}  // namespace millrace
