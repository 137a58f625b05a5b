"""Sockets of the feed protocol: section 1 of docs/feed_protocol.md.

An Inbox is a PULL that others connect to (a node's data socket, a feeder's reply socket) together
with the ZAP handler of its context; an Outbox is a PUSH connected to one such endpoint.  All of them
belong to the thread that made them and never block; the owner polls `pollables()`.
"""

import re
import secrets

import zmq
from zmq.utils.monitor import parse_monitor_message

ZAP_ENDPOINT = "inproc://zeromq.zap.01"
ZAP_DOMAIN = b"millrace"
MAX_MESSAGE_BYTES = 1 << 30

_PRINCIPAL = re.compile(rb"(feeder|node)/[A-Za-z0-9/_.:-]+")


def new_key():
    """A server side's random key, as hex."""
    return secrets.token_hex(32)


def _set_common_options(socket):
    socket.linger = 0
    socket.reconnect_ivl = -1
    socket.heartbeat_ivl = 1000
    socket.heartbeat_timeout = 4000
    socket.maxmsgsize = MAX_MESSAGE_BYTES
    socket.sndhwm = 0
    socket.rcvhwm = 0


class Inbox:
    """A PLAIN server PULL on loopback TCP and an abstract IPC address, one per context.

    `peers` is "feeder" or "node": the kind of principal that may connect.
    """

    def __init__(self, context, key, peers):
        self.key = key
        self.poisoned = set()
        self._peers = peers.encode() + b"/"
        self._zap = context.socket(zmq.REP)
        self._zap.linger = 0
        self._zap.bind(ZAP_ENDPOINT)
        self._pull = None
        self._monitor = None
        self.connection = None
        self._context = context
        self.tcp_endpoint = ""
        self.ipc_endpoint = ""
        self.bind()

    def bind(self):
        """Binds to new addresses; what was bound before is closed with all its connections."""
        self._close_pull()
        self._pull = self._context.socket(zmq.PULL)
        _set_common_options(self._pull)
        self._pull.plain_server = 1
        self._pull.zap_domain = ZAP_DOMAIN
        self._pull.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        address = f"inproc://monitor-{secrets.token_hex(8)}"
        self._pull.monitor(address, zmq.EVENT_DISCONNECTED)
        self._monitor = self._context.socket(zmq.PAIR)
        self._monitor.linger = 0
        self._monitor.connect(address)
        self._pull.bind("tcp://127.0.0.1:*")
        self.tcp_endpoint = self._pull.last_endpoint.decode().rstrip("\0")
        self.ipc_endpoint = f"ipc://@millrace-{secrets.token_hex(8)}"
        self._pull.bind(self.ipc_endpoint)

    def pollables(self):
        return [self._zap, self._pull, self._monitor]

    def take_lost(self):
        """Connections that have ended since the last call, by what `connection` was then."""
        lost = set()
        while True:
            try:
                lost.add(parse_monitor_message(self._monitor.recv_multipart(zmq.NOBLOCK))["value"])
            except zmq.Again:
                return lost

    def receive(self):
        """(principal, parts) of the next message, None when there is none. Answers ZAP first.

        `connection` then says over which connection it came.
        """
        self._answer_zap()
        while True:
            try:
                message = self._pull.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return None
            principal = message[0].get("User-Id")
            self.connection = message[0].get(zmq.SRCFD)
            if principal not in self.poisoned:
                return principal, [part.buffer for part in message]

    def _answer_zap(self):
        while True:
            try:
                request = self._zap.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            request_id = request[1] if len(request) > 1 else b""
            principal = self._admit(request)
            status = [b"200", b"OK", principal] if principal else [b"400", b"refused", b""]
            self._zap.send_multipart([b"1.0", request_id, *status, b""])

    def _admit(self, request):
        if len(request) != 8 or request[0] != b"1.0" or request[2] != ZAP_DOMAIN or request[5] != b"PLAIN":
            return b""
        principal, password = request[6], request[7]
        if len(principal) > 64 or not _PRINCIPAL.fullmatch(principal) or not principal.startswith(self._peers):
            return b""
        if not secrets.compare_digest(password, self.key.encode()) or principal.decode() in self.poisoned:
            return b""
        return principal

    def _close_pull(self):
        if self._pull is None:
            return
        self._pull.disable_monitor()
        self._monitor.close()
        self._pull.close()

    def close(self):
        self._zap.close()
        self._close_pull()


class Outbox:
    """A PLAIN client PUSH to one endpoint, with its monitor.

    `state` is "connecting", "connected", then "refused" (the handshake failed), "unreachable" (never
    connected) or "lost". The last three are final: nothing reconnects.
    """

    def __init__(self, context, endpoint, principal, key):
        self.endpoint = endpoint
        self.state = "connecting"
        self._push = context.socket(zmq.PUSH)
        _set_common_options(self._push)
        self._push.plain_username = principal.encode()
        self._push.plain_password = key.encode()
        address = f"inproc://monitor-{secrets.token_hex(8)}"
        self._push.monitor(address, zmq.EVENT_ALL)
        self._monitor = context.socket(zmq.PAIR)
        self._monitor.linger = 0
        self._monitor.connect(address)
        self._push.connect(endpoint)

    @property
    def broken(self):
        return self.state not in ("connecting", "connected")

    def pollables(self):
        return [self._monitor]

    def update(self):
        """Takes what the monitor has to say into `state`."""
        while True:
            try:
                event = parse_monitor_message(self._monitor.recv_multipart(zmq.NOBLOCK))["event"]
            except zmq.Again:
                return
            if self.broken:
                continue
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.state = "connected"
            elif event in (
                zmq.EVENT_HANDSHAKE_FAILED_AUTH,
                zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL,
                zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL,
            ):
                self.state = "refused"
            elif event == zmq.EVENT_DISCONNECTED:
                self.state = "lost" if self.state == "connected" else "unreachable"
            elif event == zmq.EVENT_CLOSED:
                self.state = "unreachable"

    def send(self, parts):
        """Queues a message. False when the connection is gone and it cannot be queued."""
        try:
            self._push.send_multipart(parts, zmq.NOBLOCK)
            return True
        except zmq.Again:
            return False

    def close(self):
        self._push.disable_monitor()
        self._monitor.close()
        self._push.close()
