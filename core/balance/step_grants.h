// File: core/balance/step_grants.h
//
// How many batches the ranks of one Train call may take, so that all of them take equally many: a
// table of numbers, for the coordinator (docs/feed_protocol.md, section 11). No node, no lock, no
// clock.
//
// Defines: RankRows, StepGrants.
//
//   StepGrants grants({0, 1}, /*batch_rows=*/64, StepGrants::AtEnd::kDrop, /*generation=*/1);
//   grants.Tell(0, {.generation = 1, .rows = 640});
//   grants.Tell(1, {.generation = 1, .rows = 200});
//   grants.steps();                                    // 3: rank 1 holds rows for no more
//   grants.SetFed(1, true);                            // its rows are all there; it is asked
//   grants.Tell(1, {.generation = 1, .answer = grants.question(1), .rows = 200});
//   grants.last();                                     // true: there will be no fourth step
#ifndef CORE_BALANCE_STEP_GRANTS_H_
#define CORE_BALANCE_STEP_GRANTS_H_

#include <cstdint>
#include <map>
#include <vector>

namespace millrace {

// What a rank says of its rows.
struct RankRows {
  // What it says counts for this generation, in which `rows` are those that it was given in
  // batches, has dropped, or holds. What it is owed after a lost connection is not among them.
  uint64_t generation = 0;
  // The question() to which this is the answer: `rows` are all that it will have; 0: none.
  uint64_t answer = 0;
  int64_t rows = 0;
  // In earlier generations of the call, and what does not follow from `rows`.
  int64_t dropped = 0;
  int64_t repeated = 0;
  bool can_repeat = false;  // its process has had rows of the call
};

// A generation begins with the call, and again whenever a rank has died: what was granted and not
// taken is void, and all ranks count from 0. Within one, steps() only grows.
//
// Thread safety: none. Blocking: never.
class StepGrants {
 public:
  // What becomes of the rows that do not fill a batch at every rank.
  enum class AtEnd { kDrop, kPad };

  // `ranks`: any numbers, at least one. `batch_rows` and `generation` are at least 1.
  StepGrants(const std::vector<int>& ranks, int64_t batch_rows, AtEnd at_end, uint64_t generation);

  // Of a rank that there is. What was said of another generation counts for nothing.
  void Tell(int rank, const RankRows& rows);
  // Whether all that the rank will be fed is with it. Once it is, the rank is asked how much.
  void SetFed(int rank, bool fed);
  // Its process is gone: another generation begins, and another process may go on.
  void End(int rank);
  // It reads no more: nothing more is granted to anybody.
  void Leave(int rank);

  [[nodiscard]] uint64_t generation() const { return generation_; }
  // What the rank has said last of its rows of this generation.
  [[nodiscard]] int64_t rows(int rank) const { return ranks_.at(rank).rows; }
  // Every rank may take this many batches in this generation.
  [[nodiscard]] int64_t steps() const { return steps_; }
  // There will be no more in this generation.
  [[nodiscard]] bool last() const { return last_; }
  // What the rank is asked: how many rows it has now that it will get no more. 0: nothing.
  [[nodiscard]] uint64_t question(int rank) const { return ranks_.at(rank).question; }
  // kPad: ranks that would have to repeat rows and have had none. Not empty: nothing is granted.
  // After a death nothing is; then the call ends there, and what is left is dropped.
  [[nodiscard]] const std::vector<int>& without_rows() const { return without_rows_; }

  // last(), and every rank has answered.
  [[nodiscard]] bool settled() const;
  // Rows of the rank that are in no batch, and those that are there once more, in the whole call.
  // Those of this generation count once it has answered, and last().
  [[nodiscard]] int64_t dropped(int rank) const;
  [[nodiscard]] int64_t repeated(int rank) const;
  // It has dropped and repeated no others: it has answered, there are no more steps, and no process
  // of it has ended in this call that could have left something untold.
  [[nodiscard]] bool complete(int rank) const;

 private:
  struct Rank {
    int64_t rows = 0;
    int64_t dropped = 0;
    int64_t repeated = 0;
    bool can_repeat = false;
    bool exact = false;   // it has answered: `rows` will not grow
    bool untold = false;  // so may be what a process of it dropped or repeated
    uint64_t question = 0;
  };
  void Update();
  void UpdateDrop();
  void UpdatePad();

  const int64_t batch_rows_;
  const AtEnd at_end_;
  const uint64_t first_generation_;
  uint64_t generation_;
  uint64_t questions_ = 0;
  std::map<int, Rank> ranks_;
  std::vector<int> without_rows_;
  int64_t steps_ = 0;
  bool last_ = false;
  bool left_ = false;
};

}  // namespace millrace

#endif  // CORE_BALANCE_STEP_GRANTS_H_
