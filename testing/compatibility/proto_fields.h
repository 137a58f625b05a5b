// File: testing/compatibility/proto_fields.h
//
// Every field, value and method of the protocols that are Protobuf, one a line.
//
// Defines: ProtoFieldsText().

#ifndef TESTING_COMPATIBILITY_PROTO_FIELDS_H_
#define TESTING_COMPATIBILITY_PROTO_FIELDS_H_

#include <string>

namespace millrace::compatibility {

// What the bytes depend on, of today's:
//   field millrace.v1.Register 1 protocol uint32
//   field millrace.v1.Registered 8 node millrace.v1.NodeSpec
//   field millrace.v1.NodeSpec 4 args repeated string
//   value millrace.v1.NodeState 1 NODE_STATE_READY
//   method millrace.v1.Coordinator/Attach stream millrace.v1.AgentMessage stream ...
[[nodiscard]] std::string ProtoFieldsText();

}  // namespace millrace::compatibility

#endif  // TESTING_COMPATIBILITY_PROTO_FIELDS_H_
