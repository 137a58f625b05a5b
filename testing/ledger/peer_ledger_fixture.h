// File: testing/ledger/peer_ledger_fixture.h
//
// What the ledger's tests with feeder processes share: a node, and feeders (the reference peer's,
// the SDK's own or Java's, by REFERENCE_FEEDER) that are told of it by a file. Test only.
//
// Defines: FeederRun, PeerLedgerFixture.

#ifndef TESTING_LEDGER_PEER_LEDGER_FIXTURE_H_
#define TESTING_LEDGER_PEER_LEDGER_FIXTURE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "core/process/process.h"
#include "feed/feeder/fake_node_directory.h"
#include "feed/feeder/node_directory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/child_process.h"
#include "testing/ledger/ledger_node_process.h"

namespace millrace {

// What one run of the feeder said.
struct FeederRun {
  bool killed = false;
  bool good = false;
  int64_t refed = 0;
  std::map<int64_t, int64_t> last_sent;  // the last session's rows, by partition
  int64_t sessions = 0;                  // that have sent rows
  int64_t sent_rows = 0;                 // of them; too many where one did not begin at row 0
  int64_t batches_placed = 0;
  int64_t results_placed = 0;
  std::vector<std::string> ends;  // "kind CODE: message"
};

class PeerLedgerFixture : public ::testing::TestWithParam<uint64_t> {
 protected:
  int64_t Pick(int64_t from, int64_t to) {
    return from + static_cast<int64_t>(random_() % static_cast<uint64_t>(to - from + 1));
  }

  // Starts the node; its folder is new, and gone with this object.
  void Begin(LedgerNode::Options options, int faults) {
    auto folder = TempDir::Create("peer_ledger");
    ASSERT_THAT(folder, IsOk());
    folder_.emplace(*std::move(folder));
    plan_ = std::make_unique<TcpFaultPlan>(GetParam() * 5 + 3, faults);
    options.name = "worker:0";
    options.folder = folder_->path();
    node_ = std::make_unique<LedgerNode>(std::move(options), plan_.get(), &directory_);
    ASSERT_THAT(node_->Start(random_()), IsOk());
    WriteLookup();
  }

  // A feeder of everything.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<ChildProcess>> StartFeeder(
      const std::string& feed_id, const std::string& mode) const {
    return ChildProcess::Start({EnvOr("REFERENCE_FEEDER", ""),
                                "--lookup-file",
                                Lookup(),
                                "--reply",
                                "tcp",
                                "--mode",
                                mode,
                                "--partitions",
                                absl::StrCat(partitions_),
                                "--rows",
                                absl::StrCat(rows_),
                                "--batch-rows",
                                absl::StrCat(batch_rows_),
                                "--feed-id",
                                feed_id,
                                "--columns",
                                "id:int64,name:utf8",
                                "--check-results",
                                mode == "inference" ? "echo" : "none",
                                "--deadline",
                                "240",
                                "--feed-timeout",
                                "60"});
  }

  // SIGKILL for the node; then there is another one.
  void KillNode(absl::Duration until_known) {
    EXPECT_THAT(node_->Kill(until_known, FeedTarget::State::kRestarting), IsOk());
    WriteLookup();
    EXPECT_THAT(node_->Start(random_()), IsOk());
    WriteLookup();
  }

  // A line of the feeder's, which is an event unless a kill has cut it.
  static absl::StatusOr<Json> Note(const std::string& line, FeederRun* run) {
    absl::StatusOr<Json> event = ParseJson(line);
    if (!event.ok()) return event;
    const std::string name = event->value("event", "");
    EXPECT_NE(name, "poisoned") << line;
    EXPECT_NE(name, "wrong_result") << line;
    if (name == "sent") {
      const int64_t row = event->at("row");
      int64_t& last = run->last_sent[event->at("partition")];
      const bool goes_on = row > last && last > 0;
      run->sessions += goes_on ? 0 : 1;
      run->sent_rows += goes_on ? row - last : row;
      last = row;
    }
    if (name == "end") {
      run->refed += event->at("refed").get<int64_t>();
      if (event->at("kind") != "done") {
        run->ends.push_back(absl::StrCat(event->value("kind", ""), " ", event->value("code", ""),
                                         ": ", event->value("message", "")));
      }
    }
    if (name == "stats") {
      run->batches_placed = event->at("batches_placed");
      run->results_placed = event->at("results_placed");
    }
    return event;
  }

  std::mt19937_64 random_{GetParam()};
  int64_t partitions_ = 0;
  int64_t rows_ = 0;  // of each
  int64_t batch_rows_ = 0;
  FakeNodeDirectory directory_;
  std::optional<TempDir> folder_;
  std::unique_ptr<TcpFaultPlan> plan_;
  std::unique_ptr<LedgerNode> node_;

 private:
  // The file that the feeder looks nodes up in.
  std::string Lookup() const { return JoinPath(folder_->path(), "lookup.json"); }
  void WriteLookup() {
    const FeedTarget target = *directory_.Lookup("worker:0");
    const Json lookup = {
        {"state", target.state == FeedTarget::State::kRunning ? "running" : "restarting"},
        {"endpoint", target.tcp_endpoint},
        {"key", target.key},
        {"nonce", target.nonce}};
    ASSERT_THAT(WriteFileAtomic(Lookup(), lookup.dump()), IsOk());
  }
};

}  // namespace millrace

#endif  // TESTING_LEDGER_PEER_LEDGER_FIXTURE_H_
