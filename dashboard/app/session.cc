#include "dashboard/app/session.h"

#include <utility>

namespace millrace::dashboard {

Session::Session(std::unique_ptr<UpdateSource> source, std::unique_ptr<RecordingWriter> recording)
    : source_(std::move(source)),
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
