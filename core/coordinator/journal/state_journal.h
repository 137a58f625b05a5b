// File: core/coordinator/journal/state_journal.h
//
// The state folder of a driver that may be replaced: who has it, what the cluster is, and a journal
// of what was decided.
//
// Defines: StateJournal.
//
//   MILLRACE_ASSIGN_OR_RETURN(auto journal, StateJournal::Create(folder, head));
//   journal->Append({record});          // before anybody is told of it
//   ...                                 // SIGKILL, at any moment
//   MILLRACE_ASSIGN_OR_RETURN(auto next, StateJournal::Resume(folder));
//   next->restored().slots();           // as they were
//
// The folder, of mode 0700, has files of mode 0600:
//   lock           locked (flock) by the driver that has the cluster; says which one that is
//   cluster        v1::StateHead; written once, whole or not at all: with it there is a cluster
//   journal.<n>    v1::StateRecords of the driver of epoch n, each after its length and CRC-32
//
// A driver that takes over writes journal.<n+1> with what the one before came to, whole, under a
// name that only one of several can make (link), and removes the old one. So at most one wins even
// where locks do nothing, and the one before, should it live, sees at its next Append() that its
// journal is gone. What is torn at the end of a journal was told to nobody, and is left out.

#ifndef CORE_COORDINATOR_JOURNAL_STATE_JOURNAL_H_
#define CORE_COORDINATOR_JOURNAL_STATE_JOURNAL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/mutex.h"
#include "core/base/unique_fd.h"
#include "core/coordinator/journal/state_image.h"
#include "core/proto/state.pb.h"

namespace millrace {

// Ownership: the folder's lock, until it is destroyed. The files stay, unless Remove() was called.
// Thread safety: thread-safe. Blocking: disk I/O, all of it.
class StateJournal {
 public:
  // Makes the folder, if it is not there, and begins. Returns FAILED_PRECONDITION if others may
  // read the folder, or a driver has it (naming that one); ALREADY_EXISTS if it holds a cluster,
  // which Resume() takes over; otherwise the system's error.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<StateJournal>> Create(
      const std::string& folder, const v1::StateHead& head);

  // Takes over what is there. Returns NOT_FOUND if the folder holds no cluster, FAILED_PRECONDITION
  // as Create(), or if another version wrote it, ABORTED if another driver was faster, DATA_LOSS
  // if a file is damaged other than at its end.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<StateJournal>> Resume(
      const std::string& folder);

  // Whether the folder holds a cluster. PERMISSION_DENIED and the like if that cannot be seen.
  [[nodiscard]] static absl::StatusOr<bool> HoldsCluster(const std::string& folder);

  ~StateJournal() = default;
  StateJournal(const StateJournal&) = delete;
  StateJournal& operator=(const StateJournal&) = delete;

  [[nodiscard]] const v1::StateHead& head() const { return head_; }
  // Of this driver.
  [[nodiscard]] uint64_t epoch() const { return epoch_; }
  // As the driver before left it; empty after Create().
  [[nodiscard]] const StateImage& restored() const { return restored_; }

  // When it returns OK, the records outlive this process; with `sync`, this machine too. Returns
  // ABORTED once another driver has taken the cluster over, and what the first error was ever
  // after. After any other error (a full disk) the cluster cannot be resumed any more: the files
  // are gone, since what they say would be old.
  absl::Status Append(const std::vector<v1::StateRecord>& records, bool sync = false);

  // Whether another driver has taken the cluster over (ABORTED, from then on that of Append() too);
  // otherwise OK.
  absl::Status CheckFence();

  // The cluster is over: there is nothing to resume. Nothing happens if it is another driver's.
  // Idempotent.
  void Remove();

 private:
  StateJournal(std::string folder, UniqueFd lock)
      : folder_(std::move(folder)), lock_(std::move(lock)) {}
  static absl::StatusOr<std::unique_ptr<StateJournal>> Lock(const std::string& folder);
  // Writes what the records come to as the journal of `epoch`: under a name that nobody has, or in
  // the place of this driver's own, which has become long.
  absl::Status Begin(uint64_t epoch, bool replace) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Write(absl::string_view bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RemoveFiles() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Fenced() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::string JournalPath(uint64_t epoch) const;

  const std::string folder_;
  const UniqueFd lock_;
  // Constant once Create() or Resume() has returned.
  v1::StateHead head_;
  uint64_t epoch_ = 0;
  StateImage restored_;

  Mutex mu_;
  StateImage image_ ABSL_GUARDED_BY(mu_);
  UniqueFd file_ ABSL_GUARDED_BY(mu_);
  int64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;       // of the file
  int64_t compact_at_ ABSL_GUARDED_BY(mu_) = 0;  // bytes
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_JOURNAL_STATE_JOURNAL_H_
