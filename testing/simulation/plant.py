"""Copies a source of the coordinator with one bug in it: `plant.py BUG SOURCE` writes to stdout.

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
