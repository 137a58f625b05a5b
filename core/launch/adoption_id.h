// File: core/launch/adoption_id.h
//
// The ids of adoptions (core/proto/adopt.proto): whoever has the cluster's agent token knows them,
// so that another driver finds the agents of the one before, and nobody else can guess them.
//
// Defines: AdoptionId().
//
//   hold.set_adoption_id(AdoptionId(ticket.token, ticket.cluster_id, ticket.executor_id, 1));
//
// Thread safety: pure function.

#ifndef CORE_LAUNCH_ADOPTION_ID_H_
#define CORE_LAUNCH_ADOPTION_ID_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace millrace {

// 32 hex digits. `number` counts the adoptions of the slot, from 1.
[[nodiscard]] std::string AdoptionId(absl::string_view agent_token, absl::string_view cluster_id,
                                     int executor_id, uint32_t number);

}  // namespace millrace

#endif  // CORE_LAUNCH_ADOPTION_ID_H_
