"""Sockets of the feed protocol: sections 1 and 8 of docs/feed_protocol.md.

An Inbox is a PULL that others connect to (a node's data socket, a feeder's reply socket) together
with the ZAP handler of its context; an Outbox is a PUSH connected to one such endpoint.  All of them
belong to the thread that made them and never block; the owner polls `pollables()`.
"""

import dataclasses
import re
import secrets
import socket as net
import time
import urllib.parse

import zmq
from zmq.utils import z85
from zmq.utils.monitor import parse_monitor_message

import logins

ZAP_ENDPOINT = "inproc://zeromq.zap.01"
ZAP_DOMAIN = b"millrace"
MAX_MESSAGE_BYTES = 1 << 30
# An announcement may come after its feeder: section 8.
REFUSED_AGAIN_SECONDS = 0.05
REFUSED_FOR_SECONDS = 2.5

_PRINCIPAL = re.compile(rb"(feeder|node)/[A-Za-z0-9/_.:-]+")


def new_key():
    """A server side's random key, as hex."""
    return secrets.token_hex(32)


@dataclasses.dataclass(frozen=True)
class CurveKeys:
    """The one key pair of a process, in Z85."""

    public: str
    secret: str


def new_curve_keys():
    public, secret = zmq.curve_keypair()
    return CurveKeys(public.decode(), secret.decode())


def local_address_towards(endpoint):
    """The address of this host that a connection to a tcp:// endpoint goes out from."""
    url = urllib.parse.urlsplit(endpoint)
    family, kind, _, _, address = net.getaddrinfo(url.hostname, url.port, type=net.SOCK_DGRAM)[0]
    with net.socket(family, kind) as probe:
        probe.connect(address)
        return probe.getsockname()[0]


def _set_common_options(socket):
    socket.linger = 0
    socket.reconnect_ivl = -1
    socket.heartbeat_ivl = 1000
    socket.heartbeat_timeout = 4000
    socket.maxmsgsize = MAX_MESSAGE_BYTES
    socket.sndhwm = 0
    socket.rcvhwm = 0


class _Server:
    """A bound PULL with its monitor."""

    def __init__(self, context, set_mechanism):
        self.pull = context.socket(zmq.PULL)
        _set_common_options(self.pull)
        set_mechanism(self.pull)
        self.pull.zap_domain = ZAP_DOMAIN
        self.pull.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        address = f"inproc://monitor-{secrets.token_hex(8)}"
        self.pull.monitor(address, zmq.EVENT_DISCONNECTED)
        self.monitor = context.socket(zmq.PAIR)
        self.monitor.linger = 0
        self.monitor.connect(address)

    def bind(self, address):
        self.pull.bind(address)
        return self.pull.last_endpoint.decode().rstrip("\0")

    def close(self):
        self.pull.disable_monitor()
        self.monitor.close()
        self.pull.close()


class Inbox:
    """Where others connect to, one per context: a PLAIN server PULL on loopback TCP and an abstract IPC
    address and, once bind_curve() was called, a CURVE server PULL.

    `peers` is "feeder" or "node": the kind of principal that may connect. `accept(principal, password)`
    says whether a PLAIN login is one (logins.py). `admitted` holds the principals that may come over
    CURVE, by their public keys.
    """

    def __init__(self, context, accept, peers, curve_keys=None):
        self._accept = accept
        self.curve_keys = curve_keys
        self.admitted = {}
        self.poisoned = set()
        self._peers = peers.encode() + b"/"
        self._zap = context.socket(zmq.REP)
        self._zap.linger = 0
        self._zap.bind(ZAP_ENDPOINT)
        self._plain = None
        self._curve = None
        self._curve_host = ""
        # Of the last message: its connection, and whether that one is CURVE's.
        self.connection = None
        self.over_curve = False
        self._context = context
        self.tcp_endpoint = ""
        self.ipc_endpoint = ""
        self.curve_endpoint = ""
        self.bind()

    def bind(self):
        """Binds to new addresses; what was bound before is closed with all its connections."""

        def plain(pull):
            pull.plain_server = 1

        if self._plain is not None:
            self._plain.close()
        self._plain = _Server(self._context, plain)
        self.tcp_endpoint = self._plain.bind("tcp://127.0.0.1:*")
        self.ipc_endpoint = self._plain.bind(logins.new_local_name())
        if self._curve is not None:
            self._curve.close()
            self._curve = None
            self.bind_curve(self._curve_host)

    def bind_curve(self, host):
        """The CURVE server's endpoint on this address; bound by the first call."""

        def curve(pull):
            pull.curve_server = 1
            pull.curve_secretkey = self.curve_keys.secret.encode()
            pull.curve_publickey = self.curve_keys.public.encode()

        if self._curve is None:
            self._curve = _Server(self._context, curve)
            self._curve_host = host
            self.curve_endpoint = self._curve.bind(f"tcp://{host}:*")
        return self.curve_endpoint

    @property
    def _servers(self):
        return [server for server in (self._plain, self._curve) if server is not None]

    def pollables(self):
        return [self._zap, *(s for server in self._servers for s in (server.pull, server.monitor))]

    def take_lost(self):
        """Connections that have ended since the last call, by what `connection` was then."""
        lost = set()
        for server in self._servers:
            while True:
                try:
                    lost.add(parse_monitor_message(server.monitor.recv_multipart(zmq.NOBLOCK))["value"])
                except zmq.Again:
                    break
        return lost

    def receive(self):
        """(principal, parts) of the next message, None when there is none. Answers ZAP first.

        `connection` and `over_curve` then say how it came.
        """
        self._answer_zap()
        for server in self._servers:
            while True:
                try:
                    message = server.pull.recv_multipart(zmq.NOBLOCK, copy=False)
                except zmq.Again:
                    break
                principal = message[0].get("User-Id")
                self.connection = message[0].get(zmq.SRCFD)
                self.over_curve = server is self._curve
                if principal not in self.poisoned:
                    return principal, [part.buffer for part in message]
        return None

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
        if len(request) < 7 or request[0] != b"1.0" or request[2] != ZAP_DOMAIN:
            return b""
        if request[5] == b"CURVE" and len(request) == 7 and len(request[6]) == 32:
            principal = self.admitted.get(z85.encode(request[6]).decode(), "").encode()
        elif request[5] == b"PLAIN" and len(request) == 8:
            right = self._accept(request[6].decode(errors="replace"), request[7].decode(errors="replace"))
            principal = request[6] if right else b""
        else:
            return b""
        if len(principal) > 64 or not _PRINCIPAL.fullmatch(principal) or not principal.startswith(self._peers):
            return b""
        return b"" if principal.decode() in self.poisoned else principal

    def close(self):
        self._zap.close()
        for server in self._servers:
            server.close()


class CurveOutbox:
    """A CURVE client PUSH to one endpoint, as Outbox. Nothing goes out before the handshake is done; a
    refused one is tried again for a while, since the announcement of this key may be under way.
    """

    def __init__(self, context, endpoint, keys, server_key):
        self.endpoint = endpoint
        self._context = context
        self._keys = keys
        self._server_key = server_key
        self._began = time.monotonic()
        self._refused_at = None
        self._waiting = []
        self._outbox = self._connect()

    def _connect(self):
        return Outbox(self._context, self.endpoint, "", "", (self._keys, self._server_key))

    @property
    def state(self):
        refused = self._outbox.state == "refused"
        if refused and time.monotonic() - self._began < REFUSED_FOR_SECONDS:
            return "connecting"
        return self._outbox.state

    @property
    def broken(self):
        return self.state not in ("connecting", "connected")

    def pollables(self):
        return self._outbox.pollables()

    def update(self):
        self._outbox.update()
        now = time.monotonic()
        if self._outbox.state == "connected":
            while self._waiting:
                self._outbox.send(self._waiting.pop(0))
        elif self._outbox.state == "refused" and not self.broken:
            if self._refused_at is None:
                self._refused_at = now
            elif now - self._refused_at >= REFUSED_AGAIN_SECONDS:
                self._refused_at = None
                self._outbox.close()
                self._outbox = self._connect()

    def send(self, parts):
        if self._outbox.state == "connected":
            return self._outbox.send(parts)
        self._waiting.append(parts)
        return not self.broken

    def close(self):
        self._outbox.close()


class Outbox:
    """A client PUSH to one endpoint, with its monitor: PLAIN with a password of logins.py or, with `curve`
    (own keys, the server's public key), CURVE.

    `state` is "connecting", "connected", then "refused" (the handshake failed), "unreachable" (never
    connected) or "lost". The last three are final: nothing reconnects.
    """

    def __init__(self, context, endpoint, principal, password, curve=None):
        self.endpoint = endpoint
        self.state = "connecting"
        self._push = context.socket(zmq.PUSH)
        _set_common_options(self._push)
        if curve is None:
            self._push.plain_username = principal.encode()
            self._push.plain_password = password.encode()
        else:
            keys, server_key = curve
            self._push.curve_publickey = keys.public.encode()
            self._push.curve_secretkey = keys.secret.encode()
            self._push.curve_serverkey = server_key.encode()
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
