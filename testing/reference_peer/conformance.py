"""The conformance program: whether a feeder or a node of another implementation keeps docs/feed_protocol.md.

  millrace-conformance rules                                          # what can be broken, and what is right then
  millrace-conformance node [--break RULE] [--queue ...]              # a node; point your feeder at it
  millrace-conformance feeder [--break RULE] --endpoint E --key K --nonce N ...    # a feeder; point it at your node

It prints JSON Lines as the reference node and feeder do (README.md), and at the end a `verdict`: `rule`, `expected`,
`found`, `ok`. Exit code 0: the other side was right. Without --break nothing is broken, and all has to go well.
"""

import argparse
import json
import sys
import threading
import time

import feeder
import frames
import misbehave
import node as nodes

VERDICT_SECONDS = 30.0

# What the node breaks, once, after a session's first BATCH; then the feeder has to end that session: it sends ABORT
# or closes, and never takes the partition for done. With "optional-type" it has to go on.
NODE_RULES = {
    "skip-seq": "leaves out one seq",
    "bad-magic": "magic XXXX",
    "unknown-type": "type 200",
    "optional-type": "type 200 with OPTIONAL, which is allowed",
    "credit-falls": "a CREDIT with a smaller limit",
    "ack-beyond": "acknowledges more rows than were sent",
    "revoked-unasked": "REVOKED without REVOKE",
    "early-done": "DONE before the last row",
    "result-gap": "leaves out a result (inference)",
}


class BreakingNode(nodes.TellingNode):
    """A node that breaks `rule` in the first session that brings rows, and watches what the feeder makes of it."""

    def __init__(self, rule, **options):
        super().__init__(**options)
        self.rule = rule
        self.ended = threading.Event()  # the broken session has ended, or without a rule one is done
        self.found = ""
        self._broken = None  # the session

    def _end(self, found):
        if not self.found:
            self.found = found
            self.ended.set()

    def _send(self, session, message):
        if self._broken is None and self.rule and session.next_row > session.open_message.first_row:
            if self._break(session, message):
                self._broken = session
                nodes.tell("broken", rule=self.rule, partition=session.open_message.partition)
                return
        super()._send(session, message)
        if isinstance(message, frames.Done) and (self._broken in (None, session)):
            self._end("done")

    def _break(self, session, message):
        """Sends what breaks the rule in place of `message`, or before it. False: not at this message."""
        send = super()._send
        if self.rule == "skip-seq":
            session.next_seq += 1
            send(session, message)
        elif self.rule == "bad-magic":
            parts = message.frame(session.id, session.next_seq).parts()
            session.outbox.send([b"XXXX" + parts[0][4:], *parts[1:]])
        elif self.rule in ("unknown-type", "optional-type"):
            flags = frames.FLAG_OPTIONAL if self.rule == "optional-type" else 0
            extra = frames.Frame(200, session.id, session.next_seq, b"later", flags=flags)
            session.outbox.send(extra.parts())
            session.next_seq += 1
            send(session, message)
        elif self.rule == "credit-falls":
            if session.limit == 0:
                return False
            send(session, frames.Credit(session.limit - 1, 0))
        elif self.rule == "ack-beyond":
            send(session, frames.Ack(session.next_row + 1000))
        elif self.rule == "revoked-unasked":
            send(session, frames.Revoked(session.open_message.first_row))
        elif self.rule == "early-done":
            send(session, frames.Done(session.next_row + 1, session.next_row + 1))
        elif self.rule == "result-gap":
            if not isinstance(message, frames.Result):
                return False
            send(session, frames.Result(message.first_row + 1, message.rows, message.message, message.body))
        return True

    def _in_session(self, session, frame):
        if session is self._broken and frame.type == frames.FrameType.ABORT:
            self._end("ended by ABORT")
        super()._in_session(session, frame)

    def _serve(self):
        if self._broken is not None and self._broken.id not in self._sessions:
            self._end("ended")
        super()._serve()


def run_node(arguments):
    parser = argparse.ArgumentParser(prog="millrace-conformance node")
    parser.add_argument("--break", dest="rule", choices=sorted(NODE_RULES), default="", metavar="RULE")
    parser.add_argument("--nonce", default=None)
    parser.add_argument("--curve-host")
    parser.add_argument("--budget-bytes", type=int, default=1 << 20)
    parser.add_argument("--seconds", type=float, default=VERDICT_SECONDS, help="how long a session is waited for")
    parsed = parser.parse_args(arguments)
    options = {"budget_bytes": parsed.budget_bytes, "nonce": parsed.nonce, "curve_host": parsed.curve_host}
    with BreakingNode(parsed.rule, **options) as node:
        nodes.tell("ready", **nodes.addresses(node))
        node.ended.wait(parsed.seconds)
        time.sleep(0.2)  # what is on its way out goes out
    expected = "done" if parsed.rule in ("", "optional-type") else "ended"
    return _verdict(parsed.rule, expected, node.found or "nothing", node.found.startswith(expected))


def run_feeder(arguments):
    rule = ""
    if "--break" in arguments:
        at = arguments.index("--break")
        rule = arguments[at + 1] if at + 1 < len(arguments) else ""
        if rule not in misbehave.EXPECTED:
            sys.exit(f"unknown rule {rule!r}; there are: {', '.join(sorted(misbehave.EXPECTED))}")
        arguments = [*arguments[:at], "--misbehave", rule, "--misbehave-at", "1", *arguments[at + 2 :]]
    over_curve = any(argument.split("=")[0] == "--curve" for argument in arguments)
    if over_curve and rule in misbehave.PLAIN_ONLY:
        sys.exit(f"{rule} breaks a login of PLAIN: give --endpoint and --key instead of --curve")
    ends = []

    def emit(event, **fields):
        print(json.dumps({"event": event, **fields}), flush=True)
        if event == "end":
            ends.append(f"{fields['kind']} {fields['code']}")

    code = feeder.main(arguments, emit)
    expected = misbehave.EXPECTED.get(rule, "done OK")
    if over_curve and expected.startswith("unproven"):  # the handshake was the proof
        expected = "unavailable UNAVAILABLE"
    found = ", ".join(sorted(set(ends)))
    return _verdict(rule, expected, found, found == expected and (bool(rule) or code == 0))


def _verdict(rule, expected, found, good):
    nodes.tell("verdict", rule=rule, expected=expected, found=found, ok=good)
    return 0 if good else 1


def print_rules():
    for name, what in sorted(NODE_RULES.items()):
        print(f"node    --break {name:24} {what}")
    for name, expected in sorted(misbehave.EXPECTED.items()):
        print(f"feeder  --break {name:24} {misbehave.KINDS[name]}  [{expected}]")
    return 0


def main(arguments):
    role, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if role == "node":
        return run_node(rest)
    if role == "feeder":
        return run_feeder(rest)
    if role == "rules":
        return print_rules()
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
