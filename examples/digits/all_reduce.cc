#include "examples/digits/all_reduce.h"

#include <chrono>  // Gloo takes std::chrono
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "gloo/allreduce.h"
#include "gloo/math.h"
#include "gloo/rendezvous/context.h"
#include "gloo/rendezvous/store.h"
#include "gloo/transport/tcp/device.h"

namespace millrace::examples {
namespace {

constexpr absl::Duration kRendezvousTimeout = absl::Seconds(30);
constexpr std::chrono::seconds kSumTimeout(20);

// Gloo's rendezvous in the cluster's key-value store. Gloo knows errors as exceptions only.
class KvStore final : public gloo::rendezvous::Store {
 public:
  explicit KvStore(NodeContext* ctx) : ctx_(ctx) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    Check(ctx_->kv().Set(Key(key), absl::string_view(data.data(), data.size())));
  }
  std::vector<char> get(const std::string& key) override {
    const absl::StatusOr<std::string> value = ctx_->kv().Get(Key(key), kRendezvousTimeout);
    Check(value.status());
    return {value->begin(), value->end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }

 private:
  static std::string Key(const std::string& key) { return absl::StrCat("digits.gloo.", key); }
  static void Check(const absl::Status& status) {
    if (!status.ok()) throw std::runtime_error(std::string(status.message()));
  }

  NodeContext* const ctx_;
};

class GlooAllReduce final : public AllReduce {
 public:
  explicit GlooAllReduce(std::shared_ptr<gloo::rendezvous::Context> context)
      : context_(std::move(context)) {}

  int ranks() const override { return context_->size; }

  absl::Status Sum(std::span<float> values) override {
    try {
      gloo::AllreduceOptions options(context_);
      options.setOutput(values.data(), values.size());
      options.setReduceFunction(
          static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
      gloo::allreduce(options);
    } catch (const std::exception& error) {
      return absl::UnavailableError(absl::StrCat("rank ", context_->rank, " of ", ranks(),
                                                 " lost another in an all-reduce: ", error.what()));
    }
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<gloo::rendezvous::Context> context_;
};

// Of "host:port" or "[::1]:port".
std::string HostOf(absl::string_view address) {
  absl::string_view host = address.substr(0, address.rfind(':'));
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  return std::string(host);
}

}  // namespace

absl::StatusOr<std::unique_ptr<AllReduce>> AllReduce::Join(NodeContext& ctx) {
  try {
    std::shared_ptr<gloo::transport::Device> device =
        gloo::transport::tcp::CreateDevice(HostOf(ctx.address()).c_str());
    auto context = std::make_shared<gloo::rendezvous::Context>(ctx.rank(), ctx.num_workers());
    context->setTimeout(kSumTimeout);
    KvStore store(&ctx);
    context->connectFullMesh(store, device);
    return std::make_unique<GlooAllReduce>(std::move(context));
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("rank ", ctx.rank(), " of ", ctx.num_workers(),
                                               " cannot reach the others: ", error.what()));
  }
}

}  // namespace millrace::examples
