// File: core/proto/fields_json.h
//
// Messages of counters (QueueSample, FeedInfo) as JSON objects with the same names: the message is
// the only table of its fields.
//
// Defines: ReadFields(), FieldsToJson().
//
// Thread safety: pure functions.

#ifndef CORE_PROTO_FIELDS_JSON_H_
#define CORE_PROTO_FIELDS_JSON_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/json_fwd.h"
#include "google/protobuf/message.h"

namespace millrace {

// Sets the fields of `message` that `object` has; those that it lacks are left as they are. Fields
// are unsigned numbers, booleans and texts. `where` names the object in errors. Returns
// INVALID_ARGUMENT, naming the field, for a value of another type or out of range.
[[nodiscard]] absl::Status ReadFields(const Json& object, absl::string_view where,
                                      google::protobuf::Message* message);

// All fields but lists and messages, in the order in which the message declares them.
[[nodiscard]] OrderedJson FieldsToJson(const google::protobuf::Message& message);

}  // namespace millrace

#endif  // CORE_PROTO_FIELDS_JSON_H_
