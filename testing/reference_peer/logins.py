"""The PLAIN logins of the feed protocol: section 9 of docs/feed_protocol.md.

Feeder and node prove to one another that they know the node's key, which is never sent.
"""

import hashlib
import hmac
import os
import re
import secrets

_COUNT_DIGITS = 16


def _mac(key, text):
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


def feeder_password(key, principal, count):
    """What a feeder logs in to a node with; `count` is greater at each login of the principal."""
    digits = f"{count:0{_COUNT_DIGITS}x}"
    return digits + _mac(key, f"feeder {principal} {digits}")


def node_password(key, challenge, feeder, node):
    """What a node logs in to the reply socket of `feeder` with: the answer to the challenge of its OPEN."""
    return _mac(key, f"node {challenge} {feeder} {node}")


def new_challenge():
    return secrets.token_hex(16)


def _network_namespace():
    """16 digits that name the network namespace of this process, "" if the system does not tell."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as boot_id:
            text = f"{boot_id.read().strip()}/{os.readlink('/proc/self/ns/net')}"
    except OSError:
        return ""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def new_local_name():
    """An ipc endpoint that tells where it is."""
    return "-".join(["ipc://@millrace", *filter(None, [_network_namespace()]), secrets.token_hex(16)])


def is_elsewhere(endpoint):
    """Whether an ipc endpoint is that of another network namespace."""
    here = _network_namespace()
    named = re.fullmatch(r"ipc://@millrace-([0-9a-f]{16})-[0-9a-f]+", endpoint)
    return bool(here and named) and named.group(1) != here


class FeederLogins:
    """The node's side of feeder_password(): each password is good once."""

    def __init__(self, key):
        self._key = key
        self._counts = {}

    def accept(self, principal, password):
        try:
            count = int(password[:_COUNT_DIGITS], 16)
            right = feeder_password(self._key, principal, count)
            if not hmac.compare_digest(password.encode(), right.encode()):
                return False
        except ValueError:
            return False
        if count <= self._counts.get(principal, -1):
            return False
        self._counts[principal] = count
        return True
