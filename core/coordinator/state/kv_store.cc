#include "core/coordinator/state/kv_store.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "core/proto/kv_limits.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

std::string Quoted(absl::string_view key) {
  return absl::StrCat("kv key '", EscapeControls(Ellipsize(key, 100)), "'");
}

absl::Status CheckKey(absl::string_view key) {
  if (key.empty()) return absl::InvalidArgumentError("kv key is empty");
  if (key.size() > kMaxKvKeyBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(key), " has ", key.size(), " bytes: at most ", kMaxKvKeyBytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status KvStore::Store(absl::string_view key, std::string value,
                            std::vector<Completion>* woken) {
  auto it = values_.find(key);
  const size_t before = it == values_.end() ? 0 : key.size() + it->second.size();
  const size_t after = key.size() + value.size();
  if (total_bytes_ - before + after > max_total_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat(Quoted(key), ": the cluster's kv store holds ",
                                                     total_bytes_, " bytes and takes at most ",
                                                     max_total_bytes_, "; delete keys"));
  }
  total_bytes_ = total_bytes_ - before + after;
  if (auto waiting = by_key_.find(key); waiting != by_key_.end()) {
    const std::set<Waiter> waiters = waiting->second;  // Remove() changes by_key_
    for (const Waiter& waiter : waiters) {
      Remove(waiter);
      woken->push_back({waiter, value});
    }
  }
  values_.insert_or_assign(std::string(key), std::move(value));
  return absl::OkStatus();
}

absl::Status KvStore::Set(absl::string_view key, absl::string_view value,
                          std::vector<Completion>* woken) {
  MILLRACE_RETURN_IF_ERROR(CheckKey(key));
  if (value.size() > kMaxKvValueBytes) {
    return absl::InvalidArgumentError(absl::StrCat(Quoted(key), ": a value of ", value.size(),
                                                   " bytes: at most ", kMaxKvValueBytes));
  }
  return Store(key, std::string(value), woken);
}

absl::StatusOr<std::string> KvStore::Add(absl::string_view key, int64_t delta,
                                         std::vector<Completion>* woken) {
  MILLRACE_RETURN_IF_ERROR(CheckKey(key));
  int64_t value = 0;
  if (auto it = values_.find(key); it != values_.end() && !absl::SimpleAtoi(it->second, &value)) {
    return absl::InvalidArgumentError(absl::StrCat(Quoted(key), " holds no decimal number"));
  }
  int64_t sum = 0;
  if (__builtin_add_overflow(value, delta, &sum)) {
    return absl::OutOfRangeError(
        absl::StrCat(Quoted(key), ": ", value, " + ", delta, " does not fit into 64 bits"));
  }
  std::string text = absl::StrCat(sum);
  MILLRACE_RETURN_IF_ERROR(Store(key, text, woken));
  return text;
}

absl::StatusOr<std::string> KvStore::Delete(absl::string_view key) {
  MILLRACE_RETURN_IF_ERROR(CheckKey(key));
  auto it = values_.find(key);
  if (it == values_.end()) return absl::NotFoundError(absl::StrCat("no ", Quoted(key)));
  std::string value = std::move(it->second);
  total_bytes_ -= key.size() + value.size();
  values_.erase(it);
  return value;
}

std::optional<absl::StatusOr<std::string>> KvStore::Get(absl::string_view key,
                                                        absl::Duration timeout, Waiter waiter,
                                                        absl::Duration now) {
  if (absl::Status status = CheckKey(key); !status.ok()) return status;
  Remove(waiter);
  if (auto it = values_.find(key); it != values_.end()) return it->second;
  if (timeout <= absl::ZeroDuration()) {
    return absl::NotFoundError(absl::StrCat("no ", Quoted(key)));
  }
  if (waits_.size() >= kMaxWaits || total_bytes_ + key.size() > max_total_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat(Quoted(key), ": too many wait for keys"));
  }
  const Wait wait{std::string(key), now + timeout, timeout};
  total_bytes_ += key.size();
  by_key_[wait.key].insert(waiter);
  by_deadline_.insert({wait.deadline, waiter});
  waits_.emplace(waiter, wait);
  return std::nullopt;
}

void KvStore::Remove(Waiter waiter) {
  auto it = waits_.find(waiter);
  if (it == waits_.end()) return;
  auto waiting = by_key_.find(it->second.key);
  waiting->second.erase(waiter);
  if (waiting->second.empty()) by_key_.erase(waiting);
  by_deadline_.erase({it->second.deadline, waiter});
  total_bytes_ -= it->second.key.size();
  waits_.erase(it);
}

std::vector<KvStore::Completion> KvStore::Expire(absl::Duration now) {
  std::vector<Completion> completions;
  while (!by_deadline_.empty() && by_deadline_.begin()->first <= now) {
    const Waiter waiter = by_deadline_.begin()->second;
    const Wait& wait = waits_.find(waiter)->second;
    completions.push_back(
        {waiter, absl::DeadlineExceededError(absl::StrCat(Quoted(wait.key), " was not set within ",
                                                          absl::FormatDuration(wait.timeout)))});
    Remove(waiter);
  }
  return completions;
}

absl::Duration KvStore::NextDeadline() const {
  return by_deadline_.empty() ? absl::InfiniteDuration() : by_deadline_.begin()->first;
}

void KvStore::DropOwner(uint64_t owner) {
  for (auto it = waits_.lower_bound({owner, 0}); it != waits_.end() && it->first.owner == owner;) {
    const Waiter waiter = it->first;
    ++it;
    Remove(waiter);
  }
}

std::vector<std::pair<std::string, size_t>> KvStore::List(absl::string_view prefix,
                                                          size_t limit) const {
  std::vector<std::pair<absl::string_view, size_t>> found;
  for (const auto& [key, value] : values_) {
    if (absl::StartsWith(key, prefix)) found.emplace_back(key, value.size());
  }
  const size_t count = std::min(limit, found.size());
  std::partial_sort(found.begin(), found.begin() + static_cast<ptrdiff_t>(count), found.end());
  std::vector<std::pair<std::string, size_t>> keys;
  for (size_t i = 0; i < count; ++i) {
    keys.emplace_back(std::string(found[i].first), found[i].second);
  }
  return keys;
}

}  // namespace millrace
