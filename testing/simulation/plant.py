"""Copies a source of the coordinator or the feed with one bug in it: `plant.py BUG SOURCE` writes to stdout.

A bug whose place is not in the source any more ends the build: look for where it would be made today.
"""

import sys

# Name to what stands in the source, once, and what stands there instead.
BUGS = {
    # A report about an attempt that is over counts for the one that runs.
    "unfenced_attempt": ("if (report.attempt < slot.attempt) {", "if (report.attempt + 1 < slot.attempt) {"),
    # Another agent may have a slot whose agent may come back.
    "no_lease": ("if (left <= absl::ZeroDuration()) return absl::OkStatus();", "return absl::OkStatus();"),
    # Another agent may have a slot whose agent lives.
    "stolen_slot": ("if (slot.stream_id != 0) {\n    return absl::AlreadyExistsError(",
                    "if (slot.stream_id == 1) {\n    return absl::AlreadyExistsError("),
    # An agent that takes over a slot begins the same attempt once more.
    "same_attempt": ("++slot.attempt;\n    by_agent_", "by_agent_"),
    # The others are not told of a node's new address.
    "untold_change": ("++epoch_;\n      effects->changes.push_back({epoch_, slot.role, slot.address, slot.attempt});",
                      "++epoch_;"),
    # An agent that lost its stream and never comes back is waited for without end.
    "no_end_of_lease": ("now >= slot.lease_until) {\n    Lose(", "now < absl::ZeroDuration()) {\n    Lose("),
    # A node that failed is said to be started again, and is not.
    "no_restart": ("slot.restart_at = std::max(failed_at + after, now);",
                   "slot.restart_at = std::max(failed_at + after + absl::Hours(24), now);"),
    # What a node says that saw its peer die is taken for the cause, though the peer is known to have died.
    "echo_stays": ("if (cause.consequence) return !failure.consequence;", "if (cause.consequence) return false;"),
    # The same: while the peer's agent is out of reach, and not lost yet.
    "missing_root": ("return waited < waits_.echo || others.missing;", "return waited < waits_.echo;"),
    # A node that ended since its peer died is no consequence.
    "no_echo": ("report.error.code() == absl::StatusCode::kUnavailable;",
                "report.error.code() == absl::StatusCode::kDataLoss;"),
    # An add that is asked for again, since its answer was lost, counts once more.
    "repeated_add": ("return entry.first == request.request_id();", "return false;"),
    # An agent that was out of reach when its node was stopped is not told when it comes back.
    "untold_stop": ("if (slot->stop_asked && !IsEnded(slot->state)) {",
                    "if (slot->stop_asked && slot->role.job_name.empty()) {"),
    # An agent that came before its restart is due is told what changes, without the spec.
    "early_change": ("if (stream.registered && !gets_all && !table.IsEarly(stream.executor_id)) {",
                     "if (stream.registered && !gets_all) {"),
    # An agent is left as soon as its resolver names another place, and be it for a moment.
    "flapping_move": ("if (heard || slot.sought) return slot.named_since", "if (slot.sought) return slot.named_since"),
    # A driver that takes over looks for agents where the resolver names them now.
    "forgotten_place": ("slot.address = id.place;", ""),
    # An agent that serves another cluster is taken from it.
    "stolen_agent": ("} else if (same_slot || left) {\n    if (next_stream_",
                     "} else if (true) {\n    if (next_stream_"),
    # A new attempt at the address of the one before is not told to the others.
    "untold_reuse": ("if (slot.announce || !address.ok() ||", "if (!address.ok() ||"),
    # The restarts that a driver before has used are not counted.
    "forgotten_restarts": ("slot.restarts.assign(saved.restarts, now);", ""),
    # An operator's restart is forgotten with the driver.
    "forgotten_request": ("slot.restart_asked = saved.restart_asked;", ""),
    # A journal that could not be written goes on to be there, and another driver takes it for what is.
    "old_journal": ("RemoveFiles();\n  }\n  return status_;", "}\n  return status_;"),

    # ---- those of //testing/schedules

    # A program that waits for rows is not woken when they are there.
    "sleeping_reader": ("slot->outcome = state;\n  slot->changed.SignalAll();", "slot->outcome = state;"),
    # Rows are acknowledged when they are handed out, before the program has used them.
    "early_ack": ("if (!session->handed.Advance(end_row)) return false;",
                  "if (!session->handed.Advance(end_row)) return false;\n  session->used_row = end_row;"),
    # A partition whose node was lost is to be fed again, and no thread is told.
    "sleeping_feeder": ("again_.push_back(std::move(*it));\n        work_cv_.SignalAll();",
                        "again_.push_back(std::move(*it));"),
    # What is fed again begins behind rows that were received, but maybe not used.
    "skipped_rows": ("work.first_row = resume ? state.acked_rows : 0;",
                     "work.first_row = resume ? state.received_rows : 0;"),
    # Rows that were sent again are counted only if the node had said that it had them.
    "uncounted_rows": ("(0, state.sent_rows - work.first_row);", "(0, state.received_rows - work.first_row);"),
    # The feed ends while a partition may still have to be fed again, under the same name.
    "early_feed_end": ("return AllGiven() && in_hand_ == 0;", "return AllGiven();"),
    # Results that the caller has are given once more after a restart.
    "repeated_results": ("const int64_t skip = std::max<int64_t>(delivered_ - first_row, 0);",
                         "const int64_t skip = 0;"),
    # An agent that comes back hears of what follows before it hears that it has its slot.
    "early_message": ("if (!it->second.registered && it->second.executor_id >= 0) {", "if (false) {"),
    # An observer sleeps while there is something to tell it.
    "sleeping_observer": ("arrived_.Signal();", ""),
    # That a session went on is not told to who waits for it, who looks again a second later.
    "unheard_credit": ("state_.wait_position = 0;\n    Changed();", "state_.wait_position = 0;"),
}


def main():
    bug, source = sys.argv[1:]
    old, new = BUGS[bug]
    with open(source, encoding="utf-8") as file:
        text = file.read()
    if text.count(old) != 1:
        sys.exit(f"{bug}: {source} has {text.count(old)} places of: {old}")
    sys.stdout.write(text.replace(old, new))


if __name__ == "__main__":
    main()
