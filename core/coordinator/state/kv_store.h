// File: core/coordinator/state/kv_store.h
//
// The cluster's small shared map: set, get (with wait), add, delete. A pure state machine: no
// threads, no clock of its own; a wait that ends comes back as a value from the call that ended it.
//
// Defines: KvStore.
//
//   KvStore kv;
//   kv.Get("addr", deadline, waiter, now);   // nullopt: it waits
//   kv.Set("addr", "10.0.0.1:1");            // returns {waiter, "10.0.0.1:1"}

#ifndef CORE_COORDINATOR_STATE_KV_STORE_H_
#define CORE_COORDINATOR_STATE_KV_STORE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace millrace {

// Times are steady: durations since the clock's origin. Thread safety: not thread-safe.
class KvStore {
 public:
  // Of keys and values together. Waits count as much as their keys.
  static constexpr size_t kMaxTotalBytes = size_t{256} << 20;
  static constexpr size_t kMaxWaits = size_t{1} << 20;

  // Identifies a wait: any pair that is unique among the waits of the store.
  struct Waiter {
    uint64_t owner = 0;  // dropped together by DropOwner()
    uint64_t request_id = 0;
    friend auto operator<=>(const Waiter&, const Waiter&) = default;
  };
  struct Completion {
    Waiter waiter;
    absl::StatusOr<std::string> result;
  };

  explicit KvStore(size_t max_total_bytes = kMaxTotalBytes) : max_total_bytes_(max_total_bytes) {}

  // Each returns INVALID_ARGUMENT for an empty key or one over kMaxKvKeyBytes.

  // Also INVALID_ARGUMENT for a value over kMaxKvValueBytes, RESOURCE_EXHAUSTED over
  // kMaxTotalBytes.
  // `*woken` gets the waits that end with this value.
  absl::Status Set(absl::string_view key, absl::string_view value, std::vector<Completion>* woken);

  // Adds to a decimal counter, from 0 if the key is not there; returns the sum as text. Also
  // INVALID_ARGUMENT if the key holds no decimal 64-bit number, OUT_OF_RANGE if the sum is none.
  absl::StatusOr<std::string> Add(absl::string_view key, int64_t delta,
                                  std::vector<Completion>* woken);

  // Returns what the key held. NOT_FOUND if there is none.
  absl::StatusOr<std::string> Delete(absl::string_view key);

  // Returns the value; or nullopt if it waits until `now + timeout`, and ends through Set, Add,
  // Expire or DropOwner. A waiter that waits already is replaced. With a timeout of zero or less:
  // NOT_FOUND. RESOURCE_EXHAUSTED if too many wait.
  std::optional<absl::StatusOr<std::string>> Get(absl::string_view key, absl::Duration timeout,
                                                 Waiter waiter, absl::Duration now);

  // At most `limit` keys that begin with `prefix`, in order, with the sizes of their values in
  // bytes. Looks at every key.
  [[nodiscard]] std::vector<std::pair<std::string, size_t>> List(absl::string_view prefix,
                                                                 size_t limit) const;

  // Ends the waits whose time is over, with DEADLINE_EXCEEDED.
  std::vector<Completion> Expire(absl::Duration now);
  // When Expire() has something to do next; InfiniteDuration() if nobody waits.
  [[nodiscard]] absl::Duration NextDeadline() const;

  // Forgets the waits of this owner without an answer.
  void DropOwner(uint64_t owner);

  [[nodiscard]] size_t total_bytes() const { return total_bytes_; }
  [[nodiscard]] size_t waits() const { return waits_.size(); }

 private:
  struct Wait {
    std::string key;
    absl::Duration deadline;
    absl::Duration timeout;
  };

  absl::Status Store(absl::string_view key, std::string value, std::vector<Completion>* woken);
  void Remove(Waiter waiter);

  const size_t max_total_bytes_;
  size_t total_bytes_ = 0;  // of values_ and of the keys of waits_
  absl::flat_hash_map<std::string, std::string> values_;
  std::map<Waiter, Wait> waits_;
  // Both hold each waiter of waits_ exactly once.
  absl::flat_hash_map<std::string, std::set<Waiter>> by_key_;
  std::set<std::pair<absl::Duration, Waiter>> by_deadline_;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_STATE_KV_STORE_H_
