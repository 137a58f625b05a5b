// File: core/coordinator/server/saved_state.h
//
// Between the tables and the records of a journal.
//
// Defines: ToSlotRecord(), ToSavedSlot(), StandingOf(), RecordOf().

#ifndef CORE_COORDINATOR_SERVER_SAVED_STATE_H_
#define CORE_COORDINATOR_SERVER_SAVED_STATE_H_

#include "core/coordinator/journal/state_image.h"
#include "core/coordinator/state/reservation_table.h"
#include "core/proto/state.pb.h"
#include "millrace/agent_ticket.h"

namespace millrace {

// `has_feed` stays unset.
[[nodiscard]] v1::SlotRecord ToSlotRecord(int executor_id, const SavedSlot& slot);
[[nodiscard]] SavedSlot ToSavedSlot(const v1::SlotRecord& record);
// What is left to do about a slot's agent where a driver takes over what is in `image`.
[[nodiscard]] AgentTicket::Standing StandingOf(const StateImage& image, int executor_id);
// What was written of the slot last; empty: nothing.
[[nodiscard]] v1::SlotRecord RecordOf(const StateImage& image, int executor_id);

}  // namespace millrace

#endif  // CORE_COORDINATOR_SERVER_SAVED_STATE_H_
