// File: core/proto/kv_limits.h
//
// How large a key and a value of a cluster's key-value store may be.
//
// Defines: kMaxKvKeyBytes, kMaxKvValueBytes.

#ifndef CORE_PROTO_KV_LIMITS_H_
#define CORE_PROTO_KV_LIMITS_H_

#include <cstddef>

namespace millrace {

// Of a barrier's name too.
inline constexpr size_t kMaxKvKeyBytes = 1024;
inline constexpr size_t kMaxKvValueBytes = size_t{1} << 20;

}  // namespace millrace

#endif  // CORE_PROTO_KV_LIMITS_H_
