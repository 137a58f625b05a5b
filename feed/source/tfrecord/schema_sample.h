// File: feed/source/tfrecord/schema_sample.h
//
// The schema of tensorflow.Examples, from some of them.
//
// Defines: SchemaSample.

#ifndef FEED_SOURCE_TFRECORD_SCHEMA_SAMPLE_H_
#define FEED_SOURCE_TFRECORD_SCHEMA_SAMPLE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "feed/source/tfrecord/example_wire.h"
#include "millrace/schema.h"

namespace millrace {

// Thread safety: one thread at a time.
class SchemaSample {
 public:
  // Returns INVALID_ARGUMENT if it is no Example, or if a feature is of another kind than before,
  // naming the feature; the sample must not be used any more then.
  [[nodiscard]] absl::Status Add(absl::string_view example);

  [[nodiscard]] int64_t num_records() const { return records_; }

  // As TfRecordSourceOptions says. Returns INVALID_ARGUMENT if there was no record, if no record
  // had a feature, or if the kind of one is not known.
  [[nodiscard]] absl::StatusOr<Schema> Infer(const std::vector<std::string>& binary_features) const;

 private:
  struct Seen {
    FeatureKind kind = FeatureKind::kNone;
    bool list = false;    // had another number of values than one
    bool binary = false;  // had a value that is not UTF-8
  };

  absl::Status See(const std::string& name, absl::string_view feature);

  std::map<std::string, Seen> features_;
  int64_t records_ = 0;
};

}  // namespace millrace

#endif  // FEED_SOURCE_TFRECORD_SCHEMA_SAMPLE_H_
