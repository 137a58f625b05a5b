"""What is changed in libzmq's sources, and its configuration. README.md says why, and when an edit can go.

Each edit is a text of the file and what takes its place.
"""

# libzmq's configuration for Linux, which its configure script would write; libsodium for CURVE. Condition variables are
# pthread's, since those of C++ need a libstdc++ that is newer than all else does (GLIBCXX_3.4.30, of GCC 12).
LIBZMQ_PLATFORM = """\
#ifndef __ZMQ_PLATFORM_HPP_INCLUDED__
#define __ZMQ_PLATFORM_HPP_INCLUDED__

#define HAVE_ACCEPT4 1
#define HAVE_CLOCK_GETTIME 1
#define HAVE_FORK 1
#define HAVE_IF_NAMETOINDEX 1
#define HAVE_MKDTEMP 1
#define HAVE_POSIX_MEMALIGN 1
#define HAVE_STRNLEN 1
#define ZMQ_CACHELINE_SIZE 64
#define ZMQ_HAVE_CURVE 1
#define ZMQ_HAVE_EVENTFD 1
#define ZMQ_HAVE_EVENTFD_CLOEXEC 1
#define ZMQ_HAVE_IFADDRS 1
#define ZMQ_HAVE_IPC 1
#define ZMQ_HAVE_LINUX 1
#define ZMQ_HAVE_NOEXCEPT 1
#define ZMQ_HAVE_O_CLOEXEC 1
#define ZMQ_HAVE_PPOLL 1
#define ZMQ_HAVE_PTHREAD_SETNAME_2 1
#define ZMQ_HAVE_PTHREAD_SET_AFFINITY 1
#define ZMQ_HAVE_SOCK_CLOEXEC 1
#define ZMQ_HAVE_SO_BINDTODEVICE 1
#define ZMQ_HAVE_SO_KEEPALIVE 1
#define ZMQ_HAVE_SO_PEERCRED 1
#define ZMQ_HAVE_TCP_KEEPCNT 1
#define ZMQ_HAVE_TCP_KEEPIDLE 1
#define ZMQ_HAVE_TCP_KEEPINTVL 1
#define ZMQ_HAVE_UIO 1
#define ZMQ_IOTHREAD_POLLER_USE_EPOLL 1
#define ZMQ_IOTHREAD_POLLER_USE_EPOLL_CLOEXEC 1
#define ZMQ_POLL_BASED_ON_POLL 1
#define ZMQ_USE_CV_IMPL_PTHREADS 1
#define ZMQ_USE_LIBSODIUM 1

// glibc has it since 2.38; before, libzmq brings its own.
#include <features.h>
#if __GLIBC_PREREQ(2, 38)
#define ZMQ_HAVE_STRLCPY 1
#endif

#endif
"""

_LIBZMQ_STRANGERS = """\
static std::atomic<int> strangers_of_process (0);

int zmq::stream_engine_base_t::strangers ()
{
    return strangers_of_process;
}

void zmq::stream_engine_base_t::no_stranger ()
{
    if (_is_stranger)
        --strangers_of_process;
    _is_stranger = false;
}

"""

# A quarter of the process's descriptors, 256 at most; it is looked at again after 20 ms.
_LIBZMQ_STANDING_STILL = """\
bool zmq::stream_listener_base_t::may_accept ()
{
    struct rlimit limit;
    if (getrlimit (RLIMIT_NOFILE, &limit) != 0)
        limit.rlim_cur = 0;
    const int most = static_cast<int> (
      std::min<rlim_t> (std::max<rlim_t> (limit.rlim_cur / 4, 16), 256));
    if (stream_engine_base_t::strangers () < most)
        return true;
    accept_failed (ENOBUFS);
    return false;
}

void zmq::stream_listener_base_t::accept_failed (int error_)
{
    _socket->event_accept_failed (
      make_unconnected_bind_endpoint_pair (_endpoint), error_);
    if (error_ != ENOBUFS && error_ != EMFILE && error_ != ENFILE
        && error_ != ENOMEM)
        return;
    reset_pollin (_handle);
    add_timer (20, 1);
    _stands_still = true;
}

void zmq::stream_listener_base_t::timer_event (int)
{
    _stands_still = false;
    set_pollin (_handle);
}

"""

# A frame is allocated with the length that it states: what a stranger states before the handshake is done is
# limited to what a handshake needs. And nothing that a peer does is an assertion.
LIBZMQ_EDITS = {
    "bundled/zeromq/src/i_decoder.hpp": [
        "    virtual msg_t *msg () = 0;\n",
        "    virtual msg_t *msg () = 0;\n\n    virtual void limit_to_handshake (bool) {}\n",
    ],
    "bundled/zeromq/src/v2_decoder.hpp": [
        "    msg_t *msg () { return &_in_progress; }\n",
        "    msg_t *msg () { return &_in_progress; }\n" +
        "    void limit_to_handshake (bool limited_) { _limited = limited_; }\n",
        "    const int64_t _max_msg_size;\n",
        "    const int64_t _max_msg_size;\n    bool _limited = false;\n",
    ],
    "bundled/zeromq/src/v2_decoder.cpp": [
        "    //  Message size must not exceed the maximum allowed size.\n",
        "    if (_limited && msg_size_ > 4096) {\n        errno = EMSGSIZE;\n        return -1;\n    }\n" +
        "    //  Message size must not exceed the maximum allowed size.\n",
    ],
    "bundled/zeromq/src/zmtp_engine.cpp": [
        "bool zmq::zmtp_engine_t::handshake_v3_x (const bool downgrade_sub_)\n{\n",
        "bool zmq::zmtp_engine_t::handshake_v3_x (const bool downgrade_sub_)\n{\n" +
        "    _decoder->limit_to_handshake (true);\n",
        # Of one that is shorter, what lies behind it in memory is sent back.
        "    if (msg_->is_ping ()) {\n",
        "    if (msg_->is_ping () && msg_->size () >= msg_t::ping_cmd_name_size + 2) {\n",
    ],
    "bundled/zeromq/src/stream_engine_base.cpp": [
        "static std::string get_peer_address (zmq::fd_t s_)\n{\n",
        "#include <atomic>\n\n" + _LIBZMQ_STRANGERS +
        "static std::string get_peer_address (zmq::fd_t s_)\n{\n",
        "zmq::stream_engine_base_t::~stream_engine_base_t ()\n{\n",
        "zmq::stream_engine_base_t::~stream_engine_base_t ()\n{\n    no_stranger ();\n",
        "    _has_handshake_timer (false),\n",
        "    _has_handshake_timer (false),\n" +
        "    _is_stranger (endpoint_uri_pair_.local_type == endpoint_type_bind),\n",
        "    //  Put the socket into non-blocking mode.\n",
        "    if (_is_stranger)\n        ++strangers_of_process;\n" +
        "    //  Put the socket into non-blocking mode.\n",
        "void zmq::stream_engine_base_t::mechanism_ready ()\n{\n",
        "void zmq::stream_engine_base_t::mechanism_ready ()\n{\n    no_stranger ();\n" +
        "    if (_decoder)\n        _decoder->limit_to_handshake (false);\n",
        # A heartbeat's timer and a PING come here too, after the connection broke and before the
        # messages that wait are read.
        "out_event ()\n{\n    zmq_assert (!_io_error);\n",
        "out_event ()\n{\n    if (_io_error)\n        return;\n",
    ],
    # The pipe of a socket that is being closed gives nothing any more, half a message or not.
    "bundled/zeromq/src/session_base.cpp": [
        "        rc = pull_msg (&msg);\n        errno_assert (rc == 0);\n",
        "        if (pull_msg (&msg) != 0)\n            _incomplete_in = false;\n",
    ],
    # Who connects and does not do the handshake is counted, and the listeners of a process stand still
    # while there are too many of them, or no descriptor is left.
    "bundled/zeromq/src/stream_engine_base.hpp": [
        "    ~stream_engine_base_t () ZMQ_OVERRIDE;\n",
        "    ~stream_engine_base_t () ZMQ_OVERRIDE;\n\n" +
        "    //  Connections of all listeners whose handshake is not done.\n" +
        "    static int strangers ();\n",
        "    bool _has_handshake_timer;\n",
        "    bool _has_handshake_timer;\n    bool _is_stranger;\n    void no_stranger ();\n",
    ],
    "bundled/zeromq/src/stream_listener_base.hpp": [
        "    virtual void create_engine (fd_t fd);\n",
        "    virtual void create_engine (fd_t fd);\n\n" +
        "    bool may_accept ();\n    void accept_failed (int error_);\n" +
        "    void timer_event (int id_) ZMQ_OVERRIDE;\n    bool _stands_still = false;\n",
    ],
    "bundled/zeromq/src/stream_listener_base.cpp": [
        "void zmq::stream_listener_base_t::process_term (int linger_)\n{\n",
        _LIBZMQ_STANDING_STILL +
        "void zmq::stream_listener_base_t::process_term (int linger_)\n{\n" +
        "    if (_stands_still)\n        cancel_timer (1);\n",
        "#ifndef ZMQ_HAVE_WINDOWS\n#include <unistd.h>\n",
        "#include <sys/resource.h>\n#include <algorithm>\n" +
        "#ifndef ZMQ_HAVE_WINDOWS\n#include <unistd.h>\n",
    ],
    "bundled/zeromq/src/tcp_listener.cpp": [
        "    const fd_t fd = accept ();\n\n",
        "    if (!may_accept ())\n        return;\n    const fd_t fd = accept ();\n\n",
        "    if (fd == retired_fd) {\n        _socket->event_accept_failed (\n" +
        "          make_unconnected_bind_endpoint_pair (_endpoint), zmq_errno ());\n        return;\n",
        "    if (fd == retired_fd) {\n        accept_failed (errno);\n        return;\n",
    ],
    # EMFILE, above all: a matter of how many connect.
    "bundled/zeromq/src/ipc_listener.cpp": [
        "    const fd_t fd = accept ();\n\n",
        "    if (!may_accept ())\n        return;\n    const fd_t fd = accept ();\n\n",
        "    if (fd == retired_fd) {\n        _socket->event_accept_failed (\n" +
        "          make_unconnected_bind_endpoint_pair (_endpoint), zmq_errno ());\n        return;\n",
        "    if (fd == retired_fd) {\n        accept_failed (errno);\n        return;\n",
        "                      || errno == ENFILE);\n",
        "                      || errno == ENFILE || errno == EMFILE || errno == ENOBUFS\n" +
        "                      || errno == ENOMEM);\n",
    ],
    # The server chooses the key, and may choose one that is good for nothing.
    "bundled/zeromq/src/curve_client_tools.hpp": [
        "        rc = crypto_box_beforenm (cn_precom_, cn_server_, cn_secret_);\n" +
        "        zmq_assert (rc == 0);\n",
        "        rc = crypto_box_beforenm (cn_precom_, cn_server_, cn_secret_);\n" +
        "        if (rc != 0) {\n            errno = EPROTO;\n            return -1;\n        }\n",
    ],
}
