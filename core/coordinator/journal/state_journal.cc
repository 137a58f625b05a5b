#include "core/coordinator/journal/state_journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/base/text.h"
#include "core/net/socket_address.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr uint32_t kVersion = 1;
constexpr size_t kFrameHeader = 8;            // length and CRC-32, little-endian
constexpr uint32_t kMaxRecord = 16 << 20;     // a value of the key-value store has 1 MiB
constexpr int64_t kCompactAt = 16 << 20;      // bytes
constexpr size_t kMaxFile = size_t{1} << 32;  // what is beyond is no journal

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) * 0xEDB88320u);
    table[i] = value;
  }
  return table;
}

// As zlib and Ethernet have it.
uint32_t Crc32(absl::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = MakeCrcTable();
  uint32_t crc = ~uint32_t{0};
  for (const char c : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint8_t>(c)) & 0xFF];
  return ~crc;
}

void AppendU32(uint32_t value, std::string* out) {
  for (int shift = 0; shift < 32; shift += 8) out->push_back(static_cast<char>(value >> shift));
}

uint32_t ReadU32(absl::string_view bytes) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

std::string Frames(const std::vector<v1::StateRecord>& records) {
  std::string bytes;
  for (const v1::StateRecord& record : records) {
    const std::string payload = record.SerializeAsString();
    AppendU32(static_cast<uint32_t>(payload.size()), &bytes);
    AppendU32(Crc32(payload), &bytes);
    bytes += payload;
  }
  return bytes;
}

// The image of a journal; DATA_LOSS if it is damaged where no interrupted write could have been.
absl::StatusOr<StateImage> ReadJournal(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string contents, ReadFile(path, kMaxFile));
  StateImage image;
  absl::string_view rest = contents;
  while (rest.size() >= kFrameHeader) {
    const uint32_t size = ReadU32(rest);
    if (size > rest.size() - kFrameHeader) break;  // torn, or nonsense: see below
    const absl::string_view payload = rest.substr(kFrameHeader, size);
    v1::StateRecord record;
    if (size == 0 || Crc32(payload) != ReadU32(rest.substr(4)) ||
        !record.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
      // The last write may be there in part: at the end, or zeros up to it.
      const absl::string_view behind = rest.substr(kFrameHeader + size);
      if (behind.find_first_not_of('\0') == absl::string_view::npos) break;
      return absl::DataLossError(
          absl::StrCat(path, " is damaged at byte ", contents.size() - rest.size(),
                       ", before its end: the cluster cannot be resumed from it"));
    }
    image.Apply(record);
    rest.remove_prefix(kFrameHeader + size);
  }
  if (rest.size() >= kFrameHeader && ReadU32(rest) > kMaxRecord) {
    return absl::DataLossError(absl::StrCat(path, " is damaged at byte ",
                                            contents.size() - rest.size(),
                                            ": the cluster cannot be resumed from it"));
  }
  if (image.driver().epoch() == 0) {
    return absl::DataLossError(absl::StrCat(path, " does not begin as a journal does"));
  }
  return image;
}

absl::Status SystemError(absl::string_view what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(what, " ", path));
}

absl::Status SyncFolder(const std::string& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || ::fsync(fd.get()) != 0) return SystemError("cannot sync", folder);
  return absl::OkStatus();
}

constexpr absl::string_view kJournalPrefix = "journal.";

// Epochs of the journals that are there, ascending.
std::vector<uint64_t> Journals(const std::string& folder) {
  std::vector<uint64_t> epochs;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    uint64_t epoch = 0;
    if (absl::StartsWith(name, kJournalPrefix) &&
        absl::SimpleAtoi(name.substr(kJournalPrefix.size()), &epoch)) {
      epochs.push_back(epoch);
    }
  }
  std::sort(epochs.begin(), epochs.end());
  return epochs;
}

// What drivers that were killed were about to write.
void RemoveUnfinished(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const bool ours = absl::StartsWith(name, kJournalPrefix) || absl::StartsWith(name, "cluster.");
    if (ours && absl::StrContains(name, ".tmp.")) ::unlink(entry.path().c_str());
  }
}

std::string HeadPath(const std::string& folder) { return JoinPath(folder, "cluster"); }
std::string LockPath(const std::string& folder) { return JoinPath(folder, "lock"); }

// Whether `fd` is what is there under this name.
bool IsStill(int fd, const std::string& path) {
  struct stat opened = {};
  struct stat named = {};
  return ::fstat(fd, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

v1::StateRecord ThisDriver(uint64_t epoch) {
  v1::StateRecord record;
  record.mutable_driver()->set_epoch(epoch);
  record.mutable_driver()->set_host(LocalHostname());
  record.mutable_driver()->set_pid(::getpid());
  return record;
}

}  // namespace

std::string StateJournal::JournalPath(uint64_t epoch) const {
  return JoinPath(folder_, absl::StrCat(kJournalPrefix, epoch));
}

absl::StatusOr<bool> StateJournal::HoldsCluster(const std::string& folder) {
  struct stat info = {};
  if (::stat(HeadPath(folder).c_str(), &info) == 0) return true;
  if (errno == ENOENT) return false;
  return SystemError("cannot look for", HeadPath(folder));
}

absl::StatusOr<std::unique_ptr<StateJournal>> StateJournal::Lock(const std::string& folder) {
  struct stat info = {};
  if (::stat(folder.c_str(), &info) != 0) return SystemError("cannot use the state folder", folder);
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 077) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the state folder ", folder,
        " will hold the cluster's secrets, and must be a folder of this user's that nobody else "
        "may enter: chmod 700 ",
        folder));
  }
  const std::string path = LockPath(folder);
  UniqueFd lock;
  do {  // a driver that ends removes it
    lock.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock.valid()) return SystemError("cannot open", path);
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return SystemError("cannot lock", path);
      const std::string holder = ReadFile(path, 4096).value_or("");
      return absl::FailedPreconditionError(
          absl::StrCat("the cluster of ", folder, " has a driver, ",
                       holder.empty() ? "another process" : EscapeControls(holder),
                       ": it is not taken over while that lives"));
    }
  } while (!IsStill(lock.get(), path));
  const std::string own = absl::StrCat("pid ", ::getpid(), " on ", LocalHostname());
  if (::ftruncate(lock.get(), 0) != 0 ||
      ::pwrite(lock.get(), own.data(), own.size(), 0) != static_cast<ssize_t>(own.size())) {
    return SystemError("cannot write", path);
  }
  return absl::WrapUnique(new StateJournal(folder, std::move(lock)));
}

absl::StatusOr<std::unique_ptr<StateJournal>> StateJournal::Create(const std::string& folder,
                                                                   const v1::StateHead& head) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(folder).parent_path(), error);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return SystemError("cannot make the state folder", folder);
  }
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<StateJournal> journal, Lock(folder));
  MILLRACE_ASSIGN_OR_RETURN(const bool taken, HoldsCluster(folder));
  if (taken) {
    return absl::AlreadyExistsError(
        absl::StrCat("the state folder ", folder,
                     " holds a cluster, which Cluster::Resume takes over; remove the folder to "
                     "give that cluster up"));
  }
  // Of drivers that died before they had a cluster.
  for (const uint64_t epoch : Journals(folder)) ::unlink(journal->JournalPath(epoch).c_str());
  RemoveUnfinished(folder);
  journal->head_ = head;
  journal->head_.set_version(kVersion);
  journal->epoch_ = 1;
  MutexLock lock(&journal->mu_);
  MILLRACE_RETURN_IF_ERROR(journal->Begin(1, /*replace=*/false));
  const absl::Status written =
      WriteFileAtomic(HeadPath(folder), journal->head_.SerializeAsString());
  if (!written.ok()) journal->RemoveFiles();
  if (!written.ok()) return written;
  return journal;
}

absl::StatusOr<std::unique_ptr<StateJournal>> StateJournal::Resume(const std::string& folder) {
  const absl::StatusOr<bool> there = HoldsCluster(folder);
  if (!there.ok()) return there.status();
  if (!*there) {
    return absl::NotFoundError(absl::StrCat(
        "the state folder ", folder, " holds no cluster: it has ended, or none was run with it"));
  }
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<StateJournal> journal, Lock(folder));
  MILLRACE_ASSIGN_OR_RETURN(const std::string head, ReadFile(HeadPath(folder)));
  if (!journal->head_.ParseFromString(head)) {
    return absl::DataLossError(absl::StrCat(HeadPath(folder), " is damaged"));
  }
  if (journal->head_.version() != kVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the state in ", folder, " has version ", journal->head_.version(), ", and this driver ",
        kVersion, ": resume it with the version of Millrace that ran it"));
  }
  const std::vector<uint64_t> epochs = Journals(folder);
  if (epochs.empty()) {
    return absl::DataLossError(absl::StrCat("the state folder ", folder, " has no journal"));
  }
  MILLRACE_ASSIGN_OR_RETURN(journal->restored_, ReadJournal(journal->JournalPath(epochs.back())));
  journal->epoch_ = epochs.back() + 1;
  MutexLock lock(&journal->mu_);
  journal->image_ = journal->restored_;
  MILLRACE_RETURN_IF_ERROR(journal->Begin(journal->epoch_, /*replace=*/false));
  for (const uint64_t epoch : epochs) ::unlink(journal->JournalPath(epoch).c_str());
  RemoveUnfinished(folder);
  return journal;
}

absl::Status StateJournal::Begin(uint64_t epoch, bool replace) {
  const std::string path = JournalPath(epoch);
  const std::string temporary = absl::StrCat(path, ".tmp.", RandomHex(6));
  UniqueFd file(::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600));
  if (!file.valid()) return SystemError("cannot make", temporary);
  file_ = std::move(file);
  bytes_ = 0;
  std::vector<v1::StateRecord> records = image_.Records();
  records.insert(records.begin(), ThisDriver(epoch));
  absl::Status status = Write(Frames(records));
  if (status.ok() && ::fsync(file_.get()) != 0) status = SystemError("cannot sync", temporary);
  if (status.ok()) {
    const int named = replace ? ::rename(temporary.c_str(), path.c_str())
                              : ::link(temporary.c_str(), path.c_str());
    if (named != 0 && errno == EEXIST) {
      status = absl::AbortedError(
          absl::StrCat("another driver has just taken over the cluster of ", folder_));
    } else if (named != 0) {
      status = SystemError("cannot make", path);
    }
  }
  ::unlink(temporary.c_str());
  if (status.ok()) status = SyncFolder(folder_);
  compact_at_ = std::max(kCompactAt, 4 * bytes_);
  return status;
}

absl::Status StateJournal::Write(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return SystemError("cannot write the journal in", folder_);
    bytes.remove_prefix(static_cast<size_t>(written));
    bytes_ += written;
  }
  return absl::OkStatus();
}

absl::Status StateJournal::Append(const std::vector<v1::StateRecord>& records, bool sync) {
  MutexLock lock(&mu_);
  if (!status_.ok() || records.empty()) return status_;
  MILLRACE_RETURN_IF_ERROR(Fenced());
  status_ = Write(Frames(records));
  if (status_.ok() && sync && ::fdatasync(file_.get()) != 0) {
    status_ = SystemError("cannot sync the journal in", folder_);
  }
  for (const v1::StateRecord& record : records) image_.Apply(record);
  if (status_.ok() && bytes_ > compact_at_) status_ = Begin(epoch_, /*replace=*/true);
  if (!status_.ok()) {
    MILLRACE_LOG(ERROR) << status_.message()
                        << ": the cluster goes on, and cannot be resumed if its driver dies";
    RemoveFiles();
  }
  return status_;
}

absl::Status StateJournal::Fenced() {
  struct stat info = {};
  if (::fstat(file_.get(), &info) == 0 && info.st_nlink > 0) return absl::OkStatus();
  status_ = absl::AbortedError(absl::StrCat("another driver has taken over the cluster of ",
                                            folder_, ": this one has it no more"));
  return status_;
}

absl::Status StateJournal::CheckFence() {
  MutexLock lock(&mu_);
  if (status_.ok()) return Fenced();
  return absl::IsAborted(status_) ? status_ : absl::OkStatus();
}

void StateJournal::Remove() {
  MutexLock lock(&mu_);
  if (status_.ok() && Fenced().ok()) status_ = absl::FailedPreconditionError("the cluster is over");
  if (absl::IsAborted(status_)) return;  // they are another's
  RemoveFiles();
  ::unlink(LockPath(folder_).c_str());
}

void StateJournal::RemoveFiles() {
  ::unlink(HeadPath(folder_).c_str());  // first: without it there is no cluster
  ::unlink(JournalPath(epoch_).c_str());
}

}  // namespace millrace
