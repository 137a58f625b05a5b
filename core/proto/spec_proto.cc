#include "core/proto/spec_proto.h"

#include <algorithm>  // for std::min, std::copy_n
#include <limits>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/io/gzip_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

using ::google::protobuf::io::ArrayInputStream;
using ::google::protobuf::io::GzipInputStream;
using ::google::protobuf::io::GzipOutputStream;
using ::google::protobuf::io::StringOutputStream;

std::string Compress(const std::string& bytes) {
  std::string compressed;
  StringOutputStream sink(&compressed);
  GzipOutputStream::Options options;
  options.format = GzipOutputStream::ZLIB;
  options.compression_level = 6;
  GzipOutputStream zlib(&sink, options);
  size_t done = 0;
  void* buffer = nullptr;
  int size = 0;
  // Writing into memory cannot fail.
  while (done < bytes.size() && zlib.Next(&buffer, &size)) {
    const size_t count = std::min(bytes.size() - done, static_cast<size_t>(size));
    std::copy_n(bytes.data() + done, count, static_cast<char*>(buffer));
    done += count;
    if (count < static_cast<size_t>(size)) zlib.BackUp(size - static_cast<int>(count));
  }
  zlib.Close();
  return compressed;
}

// What a task takes in a ClusterDef besides its address, at least.
constexpr size_t kTaskBytes = 8;

struct HostAndPort {
  absl::string_view host;
  uint16_t port = 0;  // 0: `host` is the whole address
};

// So that MakeAddress() gives the same text again, whatever the address is.
HostAndPort SplitAddress(absl::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos) return {address};
  const absl::string_view digits = address.substr(colon + 1);
  uint32_t port = 0;
  if (digits.size() > 5 || !absl::SimpleAtoi(digits, &port) || port == 0 || port > 0xffff ||
      digits != absl::StrCat(port)) {
    return {address};
  }
  return {address.substr(0, colon), static_cast<uint16_t>(port)};
}

std::string MakeAddress(const HostAndPort& address) {
  if (address.port == 0) return std::string(address.host);
  return absl::StrCat(address.host, ":", address.port);
}

absl::StatusOr<ClusterSpec::TaskMap> TasksFromColumns(const v1::ClusterColumns& columns,
                                                      const v1::JobColumns& job, size_t* room) {
  const int tasks = job.index_steps_size();
  if (job.host_steps_size() != tasks || job.port_low().size() != static_cast<size_t>(tasks) ||
      job.port_high().size() != static_cast<size_t>(tasks)) {
    return absl::InvalidArgumentError("its columns are not of one length");
  }
  ClusterSpec::TaskMap map;
  int64_t index = -1;
  int64_t host = 0;
  for (int i = 0; i < tasks; ++i) {
    index += job.index_steps(i);
    host += job.host_steps(i);
    if (job.index_steps(i) == 0 || index > std::numeric_limits<int>::max()) {
      return absl::InvalidArgumentError(absl::StrCat("task ", index, " after the one before it"));
    }
    if (host < 0 || host >= columns.hosts_size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("task ", index, " is on host ", host, " of ", columns.hosts_size()));
    }
    const auto low = static_cast<unsigned char>(job.port_low()[static_cast<size_t>(i)]);
    const auto high = static_cast<unsigned char>(job.port_high()[static_cast<size_t>(i)]);
    std::string address = MakeAddress(
        {columns.hosts(static_cast<int>(host)), static_cast<uint16_t>(high << 8 | low)});
    if (address.size() + kTaskBytes > *room) {
      return absl::ResourceExhaustedError(
          absl::StrCat("more than a spec of ", kMaxClusterDefBytes, " bytes holds"));
    }
    *room -= address.size() + kTaskBytes;
    map.emplace_hint(map.end(), static_cast<int>(index), std::move(address));
  }
  return map;
}

// The checksum that ends a zlib stream (RFC 1950), as its four bytes.
std::string Adler32(absl::string_view bytes) {
  uint32_t a = 1;
  uint32_t b = 0;
  for (const char c : bytes) {
    a = (a + static_cast<unsigned char>(c)) % 65521;
    b = (b + a) % 65521;
  }
  return {static_cast<char>(b >> 8), static_cast<char>(b), static_cast<char>(a >> 8),
          static_cast<char>(a)};
}

// `size` is what the sender claims: a bomb stops there, and nothing is reserved for a claim.
absl::StatusOr<std::string> Decompress(absl::string_view compressed, size_t size) {
  if (size > kMaxClusterDefBytes || compressed.size() > kMaxClusterDefBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cluster spec of ", size, " bytes: at most ", kMaxClusterDefBytes));
  }
  ArrayInputStream source(compressed.data(), static_cast<int>(compressed.size()));
  GzipInputStream zlib(&source, GzipInputStream::ZLIB);
  std::string bytes;
  const void* buffer = nullptr;
  int count = 0;
  while (zlib.Next(&buffer, &count)) {
    if (bytes.size() + static_cast<size_t>(count) > size) {
      return absl::InvalidArgumentError(
          absl::StrCat("cluster spec: more than the ", size, " bytes that it says"));
    }
    bytes.append(static_cast<const char*>(buffer), static_cast<size_t>(count));
  }
  // GzipInputStream takes a cut or extended stream for a whole one: the trailer tells.
  if (bytes.size() != size || !absl::EndsWith(compressed, Adler32(bytes))) {
    return absl::InvalidArgumentError(absl::StrCat("cluster spec: does not decompress to the ",
                                                   size, " bytes that it says (got ", bytes.size(),
                                                   ")"));
  }
  return bytes;
}

template <typename Message>
absl::StatusOr<Message> Unpack(absl::string_view compressed, size_t size) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string bytes, Decompress(compressed, size));
  Message message;
  if (!message.ParseFromString(bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cluster spec: not a ", Message::descriptor()->name()));
  }
  return message;
}

absl::Status ApplyChanges(const v1::SpecUpdate& update, ClusterSpec* spec) {
  for (const v1::TaskChange& change : update.changes()) {
    if (change.task_index() < 0) {
      return absl::InvalidArgumentError(absl::StrCat("cluster spec: job '", change.job_name(),
                                                     "' has a negative index ",
                                                     change.task_index()));
    }
    if (!change.address().empty()) {
      MILLRACE_RETURN_IF_ERROR(
          spec->SetTask(change.job_name(), change.task_index(), change.address()));
      continue;
    }
    // ClusterSpec has no removal: build it again without the task.
    ClusterSpec rest;
    for (const std::string& job : spec->jobs()) {
      MILLRACE_ASSIGN_OR_RETURN(const ClusterSpec::TaskMap* tasks, spec->TaskMapOf(job));
      ClusterSpec::TaskMap kept = *tasks;
      if (job == change.job_name()) kept.erase(change.task_index());
      MILLRACE_RETURN_IF_ERROR(rest.AddSparseJob(job, std::move(kept)));
    }
    *spec = std::move(rest);
  }
  return absl::OkStatus();
}

}  // namespace

v1::ClusterDef ClusterSpecToProto(const ClusterSpec& spec) {
  v1::ClusterDef proto;
  for (const std::string& job : spec.jobs()) {
    v1::JobDef* def = proto.add_jobs();
    def->set_name(job);
    auto tasks = spec.TaskMapOf(job);
    if (!tasks.ok()) continue;  // cannot be: the name comes from the spec
    for (const auto& [index, address] : **tasks) (*def->mutable_tasks())[index] = address;
  }
  return proto;
}

absl::StatusOr<ClusterSpec> ClusterSpecFromProto(const v1::ClusterDef& proto) {
  ClusterSpec spec;
  for (const v1::JobDef& def : proto.jobs()) {
    ClusterSpec::TaskMap tasks(def.tasks().begin(), def.tasks().end());
    absl::Status added = spec.AddSparseJob(def.name(), std::move(tasks));
    if (!added.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("cluster spec: job '", def.name(), "': ", added.message()));
    }
  }
  return spec;
}

v1::ClusterColumns ClusterSpecToColumns(const ClusterSpec& spec) {
  v1::ClusterColumns columns;
  absl::flat_hash_map<absl::string_view, int> numbers;  // of hosts; views of `spec`
  for (const std::string& name : spec.jobs()) {
    v1::JobColumns* job = columns.add_jobs();
    job->set_name(name);
    const auto tasks = spec.TaskMapOf(name);
    if (!tasks.ok()) continue;  // cannot be: the name comes from the spec
    int last_index = -1;
    int last_host = 0;
    for (const auto& [index, address] : **tasks) {
      const HostAndPort parts = SplitAddress(address);
      const auto [host, is_new] = numbers.try_emplace(parts.host, columns.hosts_size());
      if (is_new) columns.add_hosts(std::string(parts.host));
      job->add_index_steps(static_cast<uint32_t>(index) - static_cast<uint32_t>(last_index));
      job->add_host_steps(host->second - last_host);
      job->mutable_port_low()->push_back(static_cast<char>(parts.port & 0xff));
      job->mutable_port_high()->push_back(static_cast<char>(parts.port >> 8));
      last_index = index;
      last_host = host->second;
    }
  }
  return columns;
}

absl::StatusOr<ClusterSpec> ClusterSpecFromColumns(const v1::ClusterColumns& proto) {
  ClusterSpec spec;
  size_t room = kMaxClusterDefBytes;
  for (const v1::JobColumns& job : proto.jobs()) {
    absl::StatusOr<ClusterSpec::TaskMap> tasks = TasksFromColumns(proto, job, &room);
    absl::Status added =
        tasks.ok() ? spec.AddSparseJob(job.name(), *std::move(tasks)) : tasks.status();
    if (added.ok()) continue;
    const absl::StatusCode code = absl::IsResourceExhausted(added)
                                      ? absl::StatusCode::kResourceExhausted
                                      : absl::StatusCode::kInvalidArgument;
    return absl::Status(code,
                        absl::StrCat("cluster spec: job '", job.name(), "': ", added.message()));
  }
  return spec;
}

v1::SpecUpdate MakeSpecUpdate(const ClusterSpec& spec, uint64_t epoch, SpecFormat format) {
  const bool columns = format == SpecFormat::kColumns;
  const std::string bytes = columns ? ClusterSpecToColumns(spec).SerializeAsString()
                                    : ClusterSpecToProto(spec).SerializeAsString();
  v1::SpecUpdate update;
  update.set_epoch(epoch);
  update.set_uncompressed_size(static_cast<uint32_t>(bytes.size()));
  (columns ? update.mutable_zlib_columns() : update.mutable_zlib_cluster_def())
      ->assign(Compress(bytes));
  return update;
}

absl::Status ApplySpecUpdate(const v1::SpecUpdate& update, uint64_t* epoch, ClusterSpec* spec) {
  if (update.epoch() == 0) return absl::InvalidArgumentError("cluster spec: epoch 0");
  if (update.epoch() <= *epoch) return absl::OkStatus();
  if (!update.zlib_columns().empty()) {
    MILLRACE_ASSIGN_OR_RETURN(
        const auto columns,
        Unpack<v1::ClusterColumns>(update.zlib_columns(), update.uncompressed_size()));
    MILLRACE_ASSIGN_OR_RETURN(*spec, ClusterSpecFromColumns(columns));
  } else if (!update.zlib_cluster_def().empty()) {
    MILLRACE_ASSIGN_OR_RETURN(const auto def, Unpack<v1::ClusterDef>(update.zlib_cluster_def(),
                                                                     update.uncompressed_size()));
    MILLRACE_ASSIGN_OR_RETURN(*spec, ClusterSpecFromProto(def));
  } else if (update.changes().empty()) {
    return absl::InvalidArgumentError("cluster spec: neither a spec nor changes");
  } else if (update.epoch() != *epoch + 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cluster spec: changes of epoch ", update.epoch(), " do not follow on epoch ", *epoch));
  } else {
    ClusterSpec changed = *spec;
    MILLRACE_RETURN_IF_ERROR(ApplyChanges(update, &changed));
    *spec = std::move(changed);
  }
  *epoch = update.epoch();
  return absl::OkStatus();
}

}  // namespace millrace
