// File: testing/simulation/wire_message.h
//
// Defines: ParseMessage().

#ifndef TESTING_SIMULATION_WIRE_MESSAGE_H_
#define TESTING_SIMULATION_WIRE_MESSAGE_H_

#include <string>
#include <vector>

#include "core/base/log.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"

namespace millrace::simulation {

// What the coordinator has serialised for a stream.
template <typename Message>
[[nodiscard]] Message ParseMessage(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (bytes.Dump(&slices).ok()) {
    for (const grpc::Slice& slice : slices) {
      text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
  }
  Message message;
  MILLRACE_CHECK(message.ParseFromString(text));
  return message;
}

}  // namespace millrace::simulation

#endif  // TESTING_SIMULATION_WIRE_MESSAGE_H_
