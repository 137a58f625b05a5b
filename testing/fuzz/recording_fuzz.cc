// A recording of the dashboard. What opens is played: every update, twice over, folded into a view.
//
//   byte 0   even: the rest is the file
//            odd: the rest are updates, from which a file with right checksums is made; of each
//              u8 kind, u8 milliseconds since the one before, u16 size (little-endian),
//              a v1.RecordedUpdate

#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/unique_fd.h"
#include "core/client/cluster_view.h"
#include "dashboard/source/recording.h"
#include "dashboard/source/update_source.h"
#include "testing/fuzz/fuzz.h"

namespace millrace {
namespace {

using dashboard::SourceUpdate;
using dashboard::UpdateSource;

constexpr absl::string_view kHead = "MRECORD1";
// A view has a place for each executor id up to the greatest; a million of them are legal, and
// slow.
constexpr int kMaxExecutorId = 1000;
constexpr size_t kUpdatesAPoll = 16;

void Put(uint64_t value, int bytes, std::string* out) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

std::string MakeFile(absl::string_view updates) {
  std::string file(kHead);
  uint64_t arrived_us = 1'700'000'000'000'000;
  while (updates.size() >= 4) {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(updates[i]); };
    const uint8_t kind = byte(0);
    arrived_us += uint64_t{1000} * byte(1);
    const size_t size = std::min<size_t>(byte(2) | byte(3) << 8, updates.size() - 4);
    const absl::string_view update = updates.substr(4, size);
    uLongf packed_size = compressBound(static_cast<uLong>(size));
    std::string packed(packed_size, '\0');
    FUZZ_CHECK(compress2(reinterpret_cast<Bytef*>(packed.data()), &packed_size,
                         reinterpret_cast<const Bytef*>(update.data()), static_cast<uLong>(size),
                         1) == Z_OK);
    packed.resize(packed_size);
    Put(packed.size(), 4, &file);
    Put(size, 4, &file);
    Put(kind, 1, &file);
    Put(arrived_us, 8, &file);
    Put(crc32(crc32(0, nullptr, 0), reinterpret_cast<const Bytef*>(packed.data()),
              static_cast<uInt>(packed.size())),
        4, &file);
    file += packed;
    updates.remove_prefix(4 + size);
  }
  return file;
}

bool IsSmall(const v1::WatchUpdate& update) {
  for (const v1::SlotStatus& slot : update.slots()) {
    if (slot.executor_id() > kMaxExecutorId) return false;
  }
  for (const v1::WatchUpdate::Node& node : update.nodes()) {
    if (node.executor_id() > kMaxExecutorId) return false;
  }
  return true;
}

// Returns how many updates came.
size_t Play(UpdateSource* source) {
  ClusterView view;
  absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  size_t played = 0;
  absl::Time last = absl::InfinitePast();
  // The first look starts the clock; an hour later all that was recorded is due.
  for (int quiet = 0; quiet < 3;) {
    std::vector<SourceUpdate> updates;
    source->Poll(now, kUpdatesAPoll, &updates);
    FUZZ_CHECK(updates.size() <= kUpdatesAPoll);
    for (const SourceUpdate& update : updates) {
      if (update.restart) {
        view = ClusterView();
        last = absl::InfinitePast();
      }
      FUZZ_CHECK(update.arrived >= last);
      last = update.arrived;
      if (update.watch != nullptr && IsSmall(*update.watch))
        view.Apply(*update.watch).IgnoreError();
    }
    played += updates.size();
    quiet = updates.empty() ? quiet + 1 : 0;
    now += absl::Hours(1);
  }
  return played;
}

}  // namespace

void Fuzz(absl::string_view input) {
  if (input.empty()) return;
  const bool raw = (input[0] & 1) == 0;
  const std::string file = raw ? std::string(input.substr(1)) : MakeFile(input.substr(1));
  const UniqueFd fd(memfd_create("recording", MFD_CLOEXEC));
  FUZZ_CHECK(fd.valid());
  FUZZ_CHECK(write(fd.get(), file.data(), file.size()) == static_cast<ssize_t>(file.size()));
  absl::StatusOr<std::unique_ptr<UpdateSource>> source =
      dashboard::OpenRecording(absl::StrCat("/proc/self/fd/", fd.get()));
  if (!source.ok()) return;
  dashboard::Playback* const playback = (*source)->playback();
  FUZZ_CHECK(playback != nullptr);
  FUZZ_CHECK(playback->begin() <= playback->end());
  FUZZ_CHECK(Play(source->get()) > 0);
  playback->Seek(playback->begin() + (playback->end() - playback->begin()) / 2);
  Play(source->get());
}

}  // namespace millrace
