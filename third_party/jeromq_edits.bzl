"""What is changed in JeroMQ's sources. README.md says why, and when an edit can go.

Each edit is a text of the file and what takes its place.
"""

# As libzmq_edits.bzl does it, for all hubs of a JVM together. Where the limit cannot be read the bound is 256.
_JEROMQ_STRANGERS = """\
    private static final AtomicInteger STRANGERS = new AtomicInteger();
    private static final int MOST_STRANGERS = mostStrangers();
    private boolean isStranger;

    private static int mostStrangers()
    {
        try {
            for (String line : Files.readAllLines(Paths.get("/proc/self/limits"), StandardCharsets.US_ASCII)) {
                if (line.startsWith("Max open files")) {
                    long descriptors = Long.parseLong(line.substring("Max open files".length()).trim().split(" +")[0]);
                    return (int) Math.min(Math.max(descriptors / 4, 16), 256);
                }
            }
        }
        catch (IOException | NumberFormatException e) {
            return 256;
        }
        return 256;
    }

    public static boolean mayAccept()
    {
        return STRANGERS.get() < MOST_STRANGERS;
    }

    public void setStranger()
    {
        isStranger = true;
        STRANGERS.incrementAndGet();
    }

    private void setNoStranger()
    {
        if (isStranger) {
            STRANGERS.decrementAndGet();
        }
        isStranger = false;
    }

"""

_JEROMQ_STANDING_STILL = """\
    private void standStill(int error)
    {
        socket.eventAcceptFailed(endpoint, error);
        ioObject.resetPollAccept(handle);
        ioObject.addTimer(20, 1);
        standsStill = true;
    }

    @Override
    public void timerEvent(int id)
    {
        standsStill = false;
        ioObject.setPollAccept(handle);
    }

"""

JEROMQ_EDITS = {
    # Two handles of one channel, the connecter's and then the engine's: which of them the set yields
    # first must not decide whether the connection is polled.
    "zmq/poll/Poller.java": [
        "                        if (key != null) {\n                            key.cancel();",
        "                        if (key != null && key.attachment() == handle && !isReused(handle)) {\n" +
        "                            key.cancel();",
        "                        key.interestOps(handle.ops);",
        "                        key.attach(handle);\n                        key.interestOps(handle.ops);",
        "    public void start()\n",
        "    private boolean isReused(Handle handle)\n    {\n        for (Handle other : fdTable) {\n" +
        "            if (other.fd == handle.fd && !other.cancelled) {\n                return true;\n            }\n" +
        "        }\n        return false;\n    }\n\n    public void start()\n",
        # Listeners stand still; see below.
        "    private void register(Handle handle, int ops, boolean add)\n",
        "    public void resetPollAccept(Handle handle)\n    {\n" +
        "        register(handle, SelectionKey.OP_ACCEPT, false);\n    }\n\n" +
        "    private void register(Handle handle, int ops, boolean add)\n",
    ],
    "zmq/io/IOObject.java": [
        "    public final void resetPollIn(Handle handle)\n",
        "    public final void resetPollAccept(Handle handle)\n    {\n" +
        "        poller.resetPollAccept(handle);\n    }\n\n" +
        "    public final void resetPollIn(Handle handle)\n",
    ],
    # As libzmq's: who connects and does not do the handshake is counted, and the listeners of a process stand
    # still while there are too many of them, or no descriptor is left.
    "zmq/io/net/tcp/TcpListener.java": [
        "    private Poller.Handle       handle;\n",
        "    private Poller.Handle       handle;\n    private boolean             standsStill;\n",
        "    @Override\n    public void acceptEvent()\n    {\n",
        _JEROMQ_STANDING_STILL + "    @Override\n    public void acceptEvent()\n    {\n" +
        "        if (!StreamEngine.mayAccept()) {\n            standStill(ZError.ENOBUFS);\n" +
        "            return;\n        }\n",
        "            //  TODO: Handle specific errors like ENFILE/EMFILE etc.\n" +
        "            socket.eventAcceptFailed(endpoint, ZError.exccode(e));\n",
        "            standStill(ZError.exccode(e));\n",
        "            engine = new StreamEngine(channel, options, endpoint);\n",
        "            engine = new StreamEngine(channel, options, endpoint);\n" +
        "            engine.setStranger();\n",
        "        ioObject.removeHandle(handle);\n        handle = null;\n",
        "        if (standsStill) {\n            ioObject.cancelTimer(1);\n        }\n" +
        "        ioObject.removeHandle(handle);\n        handle = null;\n",
    ],
    # libzmq up to 4.3.4 writes its refusal as "^RROR": "\\x5ERROR" in its source.
    "zmq/io/mechanism/plain/PlainClientMechanism.java": [
        "            //  Temporary support for security debugging\n" +
        "            System.out.println(\"PLAIN Client I: invalid handshake command\");\n" +
        "            rc = ZError.EPROTO;\n",
        "            rc = ZError.EPROTO;\n            if (dataSize == 9 && compare(msg, \"^RROR\", false)) {\n" +
        "                state = State.ERROR_COMMAND_RECEIVED;\n" +
        "                rc = handleErrorReason(new String(msg.data(), 6, 3, zmq.ZMQ.CHARSET)) == 0" +
        " ? 0 : ZError.EPROTO;\n" +
        "            }\n",
    ],
    # A frame is allocated with the length that it tells, a gigabyte for any stranger, and the error that
    # follows ends the I/O thread: until the handshake is done the length is limited to what that needs.
    "zmq/io/coder/Decoder.java": [
        "    protected final long maxmsgsize;\n",
        "    protected final long maxmsgsize;\n    private boolean limited;\n\n" +
        "    public void limitToHandshake(boolean limited)\n    {\n        this.limited = limited;\n    }\n",
        "        if (maxmsgsize >= 0) {\n            if (size > maxmsgsize) {\n",
        "        if (size < 0 || (limited && size > 4096)) {\n            errno(ZError.EMSGSIZE);\n" +
        "            return Step.Result.ERROR;\n        }\n" +
        "        if (maxmsgsize >= 0) {\n            if (size > maxmsgsize) {\n",
    ],
    # An exception here, where a stranger's bytes are read, ends the service of the I/O thread. And it has
    # the event that a handshake succeeded, and never tells of it.
    "zmq/io/StreamEngine.java": [
        "import java.util.Arrays;\n",
        "import java.nio.charset.StandardCharsets;\nimport java.nio.file.Files;\n" +
        "import java.nio.file.Paths;\nimport java.util.Arrays;\n" +
        "import java.util.concurrent.atomic.AtomicInteger;\n",
        "    private IOObject ioObject;\n",
        _JEROMQ_STRANGERS + "    private IOObject ioObject;\n",
        "    public void destroy()\n    {\n        assert (!plugged);\n",
        "    public void destroy()\n    {\n        assert (!plugged);\n        setNoStranger();\n",
        "        if (metadata.isEmpty()) {\n            metadata = null;\n        }\n",
        "        if (metadata.isEmpty()) {\n            metadata = null;\n        }\n" +
        "        setNoStranger();\n        socket.eventHandshakeSucceeded(endpoint, 0);\n" +
        "        if (decoder instanceof V2Decoder) {\n" +
        "            ((V2Decoder) decoder).limitToHandshake(false);\n        }\n" +
        "        if (hasHandshakeTimer) {\n            ioObject.cancelTimer(HANDSHAKE_TIMER_ID);\n" +
        "            hasHandshakeTimer = false;\n        }\n",
        # After the handshake too: a length below zero for one, or a PING without its time.
        "    @Override\n    public void inEvent()\n    {\n",
        "    @Override\n    public void inEvent()\n    {\n" +
        "        try {\n            readEvent();\n        }\n" +
        "        catch (RuntimeException e) {\n            if (session != null) {\n" +
        "                error(ErrorReason.PROTOCOL);\n            }\n        }\n    }\n\n" +
        "    private void readEvent()\n    {\n",
        "        if (Msgs.startsWith(msg, \"PING\", true)) {\n",
        "        if (msg.size() >= 7 && Msgs.startsWith(msg, \"PING\", true)) {\n",
        # Its time for a handshake was one for the greeting.
        "        handshaking = false;\n\n        if (hasHandshakeTimer) {\n",
        "        handshaking = false;\n\n        if (hasHandshakeTimer && mechanism == null) {\n",
        "            zmtpVersion = Protocol.V3;\n\n" +
        "            encoder = new V2Encoder(errno, outBatchSize);\n" +
        "            decoder = new V2Decoder(errno, inBatchSize, options.maxMsgSize, options.allocator);\n",
        "            zmtpVersion = Protocol.V3;\n\n" +
        "            encoder = new V2Encoder(errno, outBatchSize);\n" +
        "            decoder = new V2Decoder(errno, inBatchSize, options.maxMsgSize, options.allocator);\n" +
        "            ((V2Decoder) decoder).limitToHandshake(true);\n",
        "        int rc = mechanism.processHandshakeCommand(msg);\n",
        "        int rc;\n        try {\n            rc = mechanism.processHandshakeCommand(msg);\n        }\n" +
        "        catch (RuntimeException e) {\n            rc = ZError.EPROTO;\n        }\n",
    ],
}
