"""A name server on loopback, dnslib's, for tests."""

import dnslib
import dnslib.server


class NameServer:
    """Answers from `records`, which a test sets: (name, type) to a list of dnslib's records' data."""

    def __init__(self, test):
        self.records = {}
        self.rcode = None
        udp, tcp = self._listen()
        for server in (udp, tcp):
            server.start_thread()
            test.addCleanup(server.server.server_close)
            test.addCleanup(server.stop)
        self.address = f"127.0.0.1:{udp.server.server_address[1]}"
        self.over_tcp = 0
        self.asked = 0  # how often

    def _listen(self):
        """One port for both."""
        options = {"address": "127.0.0.1", "logger": dnslib.server.DNSLogger("error", False)}
        while True:
            udp = dnslib.server.DNSServer(self, port=0, **options)
            try:
                return udp, dnslib.server.DNSServer(self, port=udp.server.server_address[1], tcp=True, **options)
            except OSError:  # another program has it for TCP
                udp.server.server_close()

    def resolve(self, request, handler):
        self.asked += 1
        self.over_tcp += handler.protocol == "tcp"
        reply = request.reply()
        name = str(request.q.qname).rstrip(".")
        kind = dnslib.QTYPE[request.q.qtype]
        if self.rcode is not None:
            reply.header.rcode = self.rcode
        elif name not in {known for known, _ in self.records}:
            reply.header.rcode = dnslib.RCODE.NXDOMAIN
        for data in self.records.get((name, kind), []):
            reply.add_answer(dnslib.RR(name, request.q.qtype, rdata=data, ttl=1))
        if handler.protocol == "udp" and len(reply.pack()) > 512:
            reply = request.reply()
            reply.header.tc = 1  # cut: to be asked for over TCP
        return reply


def srv(target, port=7077):
    return dnslib.SRV(0, 0, port, target)
