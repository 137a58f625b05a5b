"""A meeting point for processes: a server to which each tells what it is, and which tells all of them who is there.

Clusters do not need it, since Millrace's coordinator does that; programs may use it for themselves. Messages are JSON
after their length, and not pickles: nobody who reaches the port can make this process run code. But whoever reaches it
can read, add and stop, and it listens on every address of the host.
"""

import base64
import json
import logging
import os
import selectors
import socket
import struct
import threading
import time

from tensorflowonspark import util

logger = logging.getLogger(__name__)

TFOS_SERVER_PORT = "TFOS_SERVER_PORT"  # "8888", or a range, "9997-9999"
TFOS_SERVER_HOST = "TFOS_SERVER_HOST"
BUFSIZE = 1024
MAX_RETRIES = 3

_MAX_MESSAGE_BYTES = 16 << 20
_LENGTH = struct.Struct(">I")
_POLL_S = 0.1
_SLOW_S = 10  # a message that has begun is there by then


def _encode(value):
    if isinstance(value, (bytes, bytearray)):
        return {"base64": base64.b64encode(value).decode()}
    raise TypeError(f"{value!r} cannot be in a message: give what JSON has, or bytes")


def _decode(members):
    return base64.b64decode(members["base64"]) if set(members) == {"base64"} else members


def _read(sock, size):
    parts = []
    while size > 0:
        part = sock.recv(min(size, 1 << 16))
        if not part:
            raise Exception("socket closed")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class Reservations:
    """Who has come, of `required` that are to come. Thread-safe."""

    def __init__(self, required):
        self.required = required
        self.lock = threading.RLock()
        self.reservations = []

    def add(self, meta):
        """Adds one: a dict."""
        with self.lock:
            self.reservations.append(meta)

    def done(self):
        """Whether all have come."""
        return self.remaining() <= 0

    def get(self):
        """Those that have come."""
        with self.lock:
            return list(self.reservations)

    def remaining(self):
        """How many have not."""
        with self.lock:
            return self.required - len(self.reservations)


class MessageSocket(object):
    """Messages over a socket."""

    def receive(self, sock):
        """The next message. Raises Exception if the other end has closed, ValueError for what is none."""
        (size,) = _LENGTH.unpack(_read(sock, _LENGTH.size))
        if size > _MAX_MESSAGE_BYTES:
            raise ValueError(f"a message of {size} bytes; the most is {_MAX_MESSAGE_BYTES}")
        return json.loads(_read(sock, size), object_hook=_decode)

    def send(self, sock, msg):
        """Sends what JSON has, or bytes."""
        data = json.dumps(msg, default=_encode).encode()
        sock.sendall(_LENGTH.pack(len(data)) + data)


class Server(MessageSocket):
    """Where `count` processes reserve their places. `done` turns true by stop(), or by a client's request."""

    reservations = None
    done = False

    def __init__(self, count):
        assert count > 0, "Expected number of reservations should be greater than zero"
        self.reservations = Reservations(count)

    def await_reservations(self, sc, status={}, timeout=600):
        """Waits until all have come, and returns them. Raises Exception after `timeout` seconds, or once `status` has
        an "error"; Spark's jobs are cancelled then, and the SparkContext goes on."""
        deadline = time.monotonic() + timeout
        while not self.reservations.done():
            if "error" in status:
                sc.cancelAllJobs()
                raise Exception(f"reservations failed: {status['error']}")
            if time.monotonic() > deadline:
                raise Exception("timed out waiting for reservations to complete")
            time.sleep(_POLL_S)
        return self.reservations.get()

    def start(self):
        """Listens on a thread of its own; returns (host, port)."""
        listener = self.start_listening_socket()
        address = (self.get_server_ip(), listener.getsockname()[1])
        logger.info("listening for reservations at %s", address)
        threading.Thread(target=self._listen, args=(listener,), name="reservations", daemon=True).start()
        return address

    def _listen(self, listener):
        with selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            while not self.done:
                for key, _ in selector.select(_POLL_S):
                    if key.fileobj is listener:
                        client, _ = listener.accept()
                        client.settimeout(_SLOW_S)
                        selector.register(client, selectors.EVENT_READ)
                    elif not self._serve(key.fileobj):
                        selector.unregister(key.fileobj)
                        key.fileobj.close()
            for key in list(selector.get_map().values()):
                key.fileobj.close()

    def _serve(self, client):
        """One message; False if the client is to go."""
        try:
            self.send(client, self._answer(self.receive(client)))
            return True
        except Exception as error:  # whatever it sends, the others are served
            logger.debug("a client is gone: %s", error)
            return False

    def _answer(self, message):
        kind = message["type"]
        if kind == "REG":
            self.reservations.add(message["data"])
            return "OK"
        if kind == "QUERY":
            return self.reservations.done()
        if kind == "QINFO":
            return self.reservations.get()
        if kind == "STOP":
            self.done = True
            return "OK"
        return "ERR"

    def get_server_ip(self):
        """The address that clients are told: TFOS_SERVER_HOST, or this host's."""
        return os.environ.get(TFOS_SERVER_HOST) or util.get_ip_address()

    def get_server_ports(self):
        """Where it may listen: the ports of TFOS_SERVER_PORT, or [0] for any."""
        given = os.environ.get(TFOS_SERVER_PORT, "0")
        ports = given.split("-")
        if len(ports) > 2:
            raise Exception(f"Invalid TFOS_SERVER_PORT: {given}")
        return list(range(int(ports[0]), int(ports[-1]) + 1))

    def start_listening_socket(self):
        """A socket at the first port that is free."""
        ports = self.get_server_ports()
        for port in ports:
            listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(("", port))
                listener.listen(128)
                return listener
            except OSError as error:
                listener.close()
                logger.warning("port %d cannot be listened on: %s", port, error)
        raise Exception(f"Reservation server unable to bind to any ports, port_list = {ports}")

    def stop(self):
        """Ends the thread that listens."""
        self.done = True


class Client(MessageSocket):
    """Speaks to the server at (host, port)."""

    sock = None
    server_addr = None

    def __init__(self, server_addr):
        self.server_addr = tuple(server_addr)
        self.sock = socket.create_connection(self.server_addr)

    def _request(self, kind, data=None):
        message = {"type": kind} if data is None else {"type": kind, "data": data}
        for attempt in range(MAX_RETRIES):
            try:
                self.send(self.sock, message)
                break
            except OSError:
                if attempt == MAX_RETRIES - 1:
                    raise
                self.sock.close()
                self.sock = socket.create_connection(self.server_addr)
        return self.receive(self.sock)

    def close(self):
        self.sock.close()

    def register(self, reservation):
        """Reserves a place, with a dict that says who this is. Returns "OK"."""
        return self._request("REG", reservation)

    def get_reservations(self):
        """Who has come so far."""
        return self._request("QINFO")

    def await_reservations(self):
        """Waits until all have come, and returns them."""
        while not self._request("QUERY"):
            time.sleep(_POLL_S)
        return self.get_reservations()

    def request_stop(self):
        """Asks the server to end. Returns "OK"."""
        return self._request("STOP")
