// File: testing/tfrecord/fixed_sizes.h
//
// A source whose schema is inferred, but for the sizes of some lists. For tests and benchmarks.
//
// Defines: OpenWithFixedSizes().

#ifndef TESTING_TFRECORD_FIXED_SIZES_H_
#define TESTING_TFRECORD_FIXED_SIZES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/tf_record.h"

namespace millrace {

// `fixed` are NAME:SIZE: the list NAME, as it is inferred, is a fixed_size_list. Returns
// INVALID_ARGUMENT for what is not, otherwise as TfRecordSource::Create().
[[nodiscard]] absl::StatusOr<std::unique_ptr<TfRecordSource>> OpenWithFixedSizes(
    const std::string& path, TfRecordSourceOptions options, const std::vector<std::string>& fixed);

}  // namespace millrace

#endif  // TESTING_TFRECORD_FIXED_SIZES_H_
