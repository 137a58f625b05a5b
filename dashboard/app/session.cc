#include "dashboard/app/session.h"

#include <atomic>
#include <utility>

namespace millrace::dashboard {
namespace {

uint64_t NextNumber() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace

Session::Session(std::unique_ptr<UpdateSource> source, std::unique_ptr<RecordingWriter> recording)
    : number_(NextNumber()),
      source_(std::move(source)),
      recording_(std::move(recording)),
      follower_(source_.get(), &model_, [this](const SourceUpdate& update) { Record(update); }) {}

Session::~Session() = default;

void Session::Record(const SourceUpdate& update) {
  if (recording_ == nullptr) return;
  if (const absl::Status status = recording_->Add(update); !status.ok()) {
    recording_error_ = status;
    recording_.reset();
  }
}

absl::Status Session::TakeRecordingError() {
  return std::exchange(recording_error_, absl::OkStatus());
}

bool Session::operator_allowed() const {
  OperatorActions* actions = source_->actions();
  return actions != nullptr && actions->allowed();
}

}  // namespace millrace::dashboard
