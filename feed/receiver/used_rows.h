// File: feed/receiver/used_rows.h
//
// Which rows of each Train call a program has been given, and which it is to be spared because it
// had used them before it was started again. No sessions, no lock: plain tables.
//
// Defines: UsedRows, CallOf().
//
//   UsedRows used;
//   used.LeaveOut(position_of_a_checkpoint);
//   used.Read("9f3c2a7be01d4c55");                                // its rows are read from now on
//   UsedRows::Stretch unused = used.FirstUnused(open, 0, 4096);   // of a BATCH of these rows
//   used.Add(open, 4096);                                         // the program has them all
//   Save(used.Position());
#ifndef FEED_RECEIVER_USED_ROWS_H_
#define FEED_RECEIVER_USED_ROWS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "feed/wire/frame.h"
#include "millrace/data_feed.h"

namespace millrace {

// What a Train call feeds after its end has the call's id with a number (docs/feed_protocol.md,
// section 6), and belongs to it here too. The id of the call:
[[nodiscard]] absl::string_view CallOf(absl::string_view feed_id);

// Thread safety: none. Blocking: never.
class UsedRows {
 public:
  // Rows from `first` to before `end`.
  struct Stretch {
    int64_t first = 0;
    int64_t end = 0;
    bool operator==(const Stretch&) const = default;
  };

  // As DataFeed::Resume says. FAILED_PRECONDITION after Read().
  [[nodiscard]] absl::Status LeaveOut(const FeedPosition& position);
  // There may be rows to leave out.
  [[nodiscard]] bool LeavesOut() const { return !left_out_.empty(); }
  // Rows of this feed are read from now on. Forgets the calls before it that have ended.
  void Read(absl::string_view feed_id);
  // FeedEnd.
  void End(absl::string_view feed_id, bool aborted);
  // The first of the rows from `row` to before `end`, of the partition that `open` names, that are
  // not to be left out, and those that follow it; {end, end} if there are none. For the call that
  // is read.
  [[nodiscard]] Stretch FirstUnused(const OpenFrame& open, int64_t row, int64_t end) const;
  // How many of these rows are not to be left out, whichever call is read.
  [[nodiscard]] int64_t CountUnused(const OpenFrame& open, int64_t row, int64_t end) const;
  // The program has been given what a session that began with `open` has before `row`. Nothing is
  // kept of a call that is forgotten.
  void Add(const OpenFrame& open, int64_t row);
  // The first row from open.first_row on that the program has not been given in sessions that were
  // added.
  [[nodiscard]] int64_t FirstNotGiven(const OpenFrame& open) const;
  // As DataFeed::Position says.
  [[nodiscard]] FeedPosition Position() const;

 private:
  using Stretches = std::map<int64_t, int64_t>;                   // first to end, apart
  using Call = std::map<std::pair<int64_t, int64_t>, Stretches>;  // by epoch and partition
  [[nodiscard]] static Stretch FirstUnused(const Call& left_out, const OpenFrame& open, int64_t row,
                                           int64_t end);
  static void Add(const FeedRows& rows, Call* call);
  static void AddAll(const Call& rows, Call* call);
  // The cluster has had, or has, its first call: this one.
  void Begin(absl::string_view call);

  // By call; what is left out of "" is of the first call, as long as that is not known.
  std::map<std::string, Call, std::less<>> given_;
  std::map<std::string, Call, std::less<>> left_out_;
  std::string first_call_;  // of the cluster; empty until it is known
  std::string reading_;     // empty until one is read
  std::set<std::string, std::less<>> ended_;
};

}  // namespace millrace

#endif  // FEED_RECEIVER_USED_ROWS_H_
