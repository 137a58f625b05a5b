"""The repositories that Millrace's libraries and programs are built with. See README.md for the reasons.

    local_repository(name = "millrace", path = "...")
    load("@millrace//third_party:repositories.bzl", "millrace_repositories")
    millrace_repositories()

What only its tests and examples need is in development_repositories.bzl.
"""

load("@bazel_tools//tools/build_defs/repo:utils.bzl", "maybe")
load("//third_party/bazel:distribution.bzl", "distribution_rules", "unused_repository")
load("//third_party/bazel:maven_jar.bzl", "maven_jar")
load("//third_party/bazel:pypi_source.bzl", "pypi_source")
load("//third_party/bazel:system_library.bzl", "system_library")

def _bazel_rules():
    maybe(
        distribution_rules,
        name = "rules_cc",
        path = "/usr/share/bazel/rules/cc",
        debian_package = "bazel-rules-cc",
        patch_use_cpp_toolchain = [
            "cc/private/rules_impl/cc_flags_supplier.bzl",
            "cc/private/rules_impl/compiler_flag.bzl",
        ],
    )
    maybe(
        distribution_rules,
        name = "rules_java",
        path = "/usr/share/bazel/rules/java",
        debian_package = "bazel-rules-java",
    )
    maybe(
        distribution_rules,
        name = "rules_proto",
        path = "/usr/share/bazel/rules/proto",
        debian_package = "bazel-rules-proto",
    )
    maybe(
        distribution_rules,
        name = "bazel_skylib",
        path = "/usr/share/bazel/tools/skylib",
        debian_package = "bazel-skylib",
    )
    maybe(
        distribution_rules,
        name = "platforms",
        path = "/usr/share/bazel/tools/platforms",
        debian_package = "bazel-platforms",
    )
    maybe(
        unused_repository,
        name = "remote_coverage_tools",
        targets = ["coverage_report_generator", "lcov_merger"],
    )

# Upstream's targets. They share one set of headers and of link flags: the linker records only the
# libraries that are used.
_ABSL_PACKAGES = {
    "absl/algorithm": ["algorithm", "container"],
    "absl/base": ["base", "config", "core_headers", "dynamic_annotations", "endian", "log_severity"],
    "absl/cleanup": ["cleanup"],
    "absl/container": [
        "btree",
        "fixed_array",
        "flat_hash_map",
        "flat_hash_set",
        "inlined_vector",
        "node_hash_map",
        "node_hash_set",
    ],
    "absl/debugging": ["failure_signal_handler", "leak_check", "stacktrace", "symbolize"],
    "absl/functional": ["any_invocable", "bind_front", "function_ref"],
    "absl/hash": ["hash"],
    "absl/memory": ["memory"],
    "absl/meta": ["type_traits"],
    "absl/numeric": ["bits", "int128"],
    "absl/random": ["bit_gen_ref", "distributions", "random", "seed_sequences"],
    "absl/status": ["status", "statusor"],
    "absl/strings": ["cord", "str_format", "strings"],
    "absl/synchronization": ["synchronization"],
    "absl/time": ["time"],
    "absl/types": ["any", "compare", "optional", "span", "variant"],
    "absl/utility": ["utility"],
}

# The modules behind them.
_ABSL_MODULES = [
    "algorithm_container",
    "any_invocable",
    "base",
    "bind_front",
    "bits",
    "btree",
    "cleanup",
    "cord",
    "core_headers",
    "dynamic_annotations",
    "failure_signal_handler",
    "fixed_array",
    "flat_hash_map",
    "flat_hash_set",
    "function_ref",
    "hash",
    "inlined_vector",
    "int128",
    "leak_check",
    "memory",
    "node_hash_map",
    "node_hash_set",
    "optional",
    "random_random",
    "span",
    "stacktrace",
    "status",
    "statusor",
    "str_format",
    "strings",
    "symbolize",
    "synchronization",
    "time",
    "type_traits",
    "utility",
    "variant",
]

def _system_libraries():
    maybe(
        system_library,
        name = "com_google_absl",
        modules = {"absl_" + module: "20220623" for module in _ABSL_MODULES},
        debian_package = "libabsl-dev",
        headers = ["absl"],
        packages = _ABSL_PACKAGES,
        packages_actual = "//:absl",
        static = True,
        archives = ["absl_"],
        build_file = Label("//third_party:absl.BUILD"),
    )
    maybe(
        system_library,
        name = "com_google_protobuf",
        modules = {"protobuf": "3.21"},
        debian_package = "libprotobuf-dev",
        # At the root, so that the well-known protos need no import prefix.
        header_prefix = "",
        headers = ["google/protobuf"],
        tools = ["protoc"],
        tools_package = "protobuf-compiler",
        static = True,
        build_file = Label("//third_party:protobuf.BUILD"),
    )
    maybe(
        system_library,
        name = "com_github_grpc_grpc",
        modules = dict({"grpc++": "1.51", "protobuf": ""}, **{"absl_" + module: "" for module in _ABSL_MODULES}),
        debian_package = "libgrpc++-dev",
        headers = ["grpc", "grpcpp"],
        tools = ["grpc_cpp_plugin"],
        tools_package = "protobuf-compiler-grpc",
        static = True,
        build_file = Label("//third_party:grpc.BUILD"),
    )
    maybe(
        system_library,
        name = "millrace_openssl",
        modules = {"libssl": "3.0", "libcrypto": "3.0"},
        debian_package = "libssl-dev",
        headers = ["openssl"],
        static = True,
        build_file = Label("//third_party:openssl.BUILD"),
    )
    maybe(
        system_library,
        name = "millrace_libsodium",
        modules = {"libsodium": "1.0.18"},
        debian_package = "libsodium-dev",
        headers = ["sodium.h", "sodium"],
        archives = ["sodium"],
        build_file = Label("//third_party:libsodium.BUILD"),
    )
    maybe(
        system_library,
        name = "com_github_gabime_spdlog",
        modules = {"spdlog": "1.10", "fmt": "9.1"},
        debian_package = "libspdlog-dev",
        headers = ["spdlog", "fmt"],
        build_file = Label("//third_party:spdlog.BUILD"),
    )
    maybe(
        system_library,
        name = "com_github_cliutils_cli11",
        modules = {"CLI11": "2.1"},
        debian_package = "libcli11-dev",
        headers = ["CLI"],
        build_file = Label("//third_party:cli11.BUILD"),
    )
    maybe(
        system_library,
        name = "com_github_nlohmann_json",
        modules = {"nlohmann_json": "3.11"},
        debian_package = "nlohmann-json3-dev",
        headers = ["nlohmann"],
        build_file = Label("//third_party:json.BUILD"),
    )
    maybe(
        system_library,
        name = "millrace_curl",
        modules = {"libcurl": "7.88"},
        debian_package = "libcurl4-openssl-dev",
        headers = ["curl"],
        build_file = Label("//third_party:curl.BUILD"),
    )
    maybe(
        system_library,
        name = "com_github_simdjson_simdjson",
        modules = {"simdjson": "3.0"},
        debian_package = "libsimdjson-dev",
        headers = ["simdjson.h"],
        build_file = Label("//third_party:simdjson.BUILD"),
    )
    maybe(
        system_library,
        name = "com_github_jbeder_yaml_cpp",
        modules = {"yaml-cpp": "0.7"},
        debian_package = "libyaml-cpp-dev",
        headers = ["yaml-cpp"],
        build_file = Label("//third_party:yaml_cpp.BUILD"),
    )
    maybe(
        system_library,
        name = "millrace_glfw",
        modules = {"glfw3": "3.3"},
        debian_package = "libglfw3-dev",
        headers = ["GLFW"],
        build_file = Label("//third_party:glfw.BUILD"),
    )
    maybe(
        system_library,
        name = "millrace_freetype",
        modules = {"freetype2": "24"},
        debian_package = "libfreetype-dev",
        headers = ["freetype2"],
        build_file = Label("//third_party:freetype.BUILD"),
    )
    maybe(
        system_library,
        name = "millrace_zlib",
        modules = {"zlib": "1.2"},
        debian_package = "zlib1g-dev",
        headers = ["zlib.h", "zconf.h"],
        build_file = Label("//third_party:zlib.BUILD"),
    )
    for name, folder in [("inter", "opentype/inter"), ("jetbrains-mono", "truetype/jetbrains-mono")]:
        maybe(
            system_library,
            name = "millrace_font_" + name.replace("-", "_"),
            modules = {},
            debian_package = "fonts-" + name,
            include_dir = "/usr/share/fonts/" + folder.split("/")[0],
            headers = [folder.split("/")[1]],
            header_prefix = "fonts",
            build_file = Label("//third_party:font.BUILD"),
        )

_NANOARROW_CONFIG = """\
#ifndef NANOARROW_CONFIG_H_INCLUDED
#define NANOARROW_CONFIG_H_INCLUDED

#define NANOARROW_VERSION_MAJOR 0
#define NANOARROW_VERSION_MINOR 9
#define NANOARROW_VERSION_PATCH 0
#define NANOARROW_VERSION "0.9.0"

#define NANOARROW_VERSION_INT                                        \\
  (NANOARROW_VERSION_MAJOR * 10000 + NANOARROW_VERSION_MINOR * 100 + \\
   NANOARROW_VERSION_PATCH)

// Keeps our symbols apart from those of another nanoarrow in the same program.
#define NANOARROW_NAMESPACE Millrace

#if !defined(NANOARROW_CXX_NAMESPACE)
#define NANOARROW_CXX_NAMESPACE nanoarrow
#endif

#define NANOARROW_CXX_NAMESPACE_BEGIN namespace NANOARROW_CXX_NAMESPACE {
#define NANOARROW_CXX_NAMESPACE_END }

#endif
"""

_IMGUI_CONFIG = """\
#ifndef MILLRACE_IMGUI_CONFIG_H_
#define MILLRACE_IMGUI_CONFIG_H_

#define IMGUI_DISABLE_OBSOLETE_FUNCTIONS
#define IMGUI_DISABLE_DEFAULT_FONT
#define IMGUI_ENABLE_FREETYPE
// More than 65,536 vertices in one plot or heat map.
#define ImDrawIdx unsigned int

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

# The same for JeroMQ, all hubs of a JVM together. Where the limit cannot be read the bound is 256.
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

# libzmq's configuration for Linux, which its configure script would write; libsodium for CURVE.
_LIBZMQ_PLATFORM = """\
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
#define ZMQ_USE_CV_IMPL_STL11 1
#define ZMQ_USE_LIBSODIUM 1

// glibc has it since 2.38; before, libzmq brings its own.
#include <features.h>
#if __GLIBC_PREREQ(2, 38)
#define ZMQ_HAVE_STRLCPY 1
#endif

#endif
"""

def _source_distributions():
    maybe(
        pypi_source,
        name = "millrace_nanoarrow",
        package = "nanoarrow",
        version = "0.9.0",
        sha256 = "1ce15bbed8532839347faa78824c5dbd3769bff60661003e34c6fba5dd881bd3",
        build_backend = "mesonpy",
        files = {"generated/nanoarrow/nanoarrow_config.h": _NANOARROW_CONFIG},
        build_file = Label("//third_party:nanoarrow.BUILD"),
    )

    # libzmq as its Python binding carries it, unchanged but for these edits.
    maybe(
        pypi_source,
        name = "millrace_libzmq",
        package = "pyzmq",
        version = "25.1.2",
        sha256 = "93f1aa311e8bb912e34f004cf186407a4e90eec4f0ecc0efd26056bf7eda0226",
        build_backend = "setuptools.build_meta",
        include = ["bundled/zeromq/*"],
        links = {"include": "bundled/zeromq/include"},
        files = {"bundled/zeromq/src/platform.hpp": _LIBZMQ_PLATFORM},
        # A frame is allocated with the length that it tells: what a stranger tells before the handshake is done
        # is limited to what a handshake needs. And nothing that a peer does is an assertion.
        edits = {
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
        },
        build_file = Label("//third_party:libzmq.BUILD"),
    )

    # Dear ImGui and ImPlot as the Python binding carries them: the docking branch, and an ImPlot that
    # fits it.
    maybe(
        pypi_source,
        name = "millrace_imgui_bundle",
        package = "imgui-bundle",
        version = "1.93.0",
        sha256 = "10ad1dab8258a6787b4f07bb926b08d0efc648a7906242568c8dd778c5e719bf",
        build_backend = "scikit_build_core.build",
        include = [
            "external/imgui/imgui/*",
            "external/implot/implot/*",
            "bindings/imgui_bundle/assets/fonts/Font_Awesome_6_Free-Solid-900.otf",
        ],
        files = {"generated/millrace_imgui_config.h": _IMGUI_CONFIG},
        build_file = Label("//third_party:imgui.BUILD"),
    )

def _maven_jars():
    maybe(
        maven_jar,
        name = "maven_org_zeromq_jeromq",
        artifact = "org.zeromq:jeromq:0.6.0",
        sha256 = "4784ff6d6e91b8eecd917b73d07b161c19a808ef870a5bdb760515bb67e208d3",
        sources_sha256 = "c20e579710d385869496d25217a7820665f7687dc1499b21be6e0ac7e9485a03",
        jar_deps = ["@maven_eu_neilalexander_jnacl//:jar"],
        edits = {
            # Two handles of one channel, the connecter's and then the engine's: which of them the set yields
            # first must not decide whether the connection is polled.
            "zmq/poll/Poller.java": [
                "                        if (key != null) {\n                            key.cancel();",
                "                        if (key != null && key.attachment() == handle && !isReused(handle)) {\n                            key.cancel();",
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
                "                rc = handleErrorReason(new String(msg.data(), 6, 3, zmq.ZMQ.CHARSET)) == 0 ? 0 : ZError.EPROTO;\n" +
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
        },
    )
    maybe(
        maven_jar,
        name = "maven_eu_neilalexander_jnacl",
        artifact = "eu.neilalexander:jnacl:1.0.0",
        sha256 = "4accc9d2a56a6dd5198ec5e1c5c05a091da563bccd346fd6578edc083152beaa",
    )
# What the Spark connector is compiled against, and never holds: Spark brings it. Compiled against the oldest
# line; a test links the class files against the others.
_SPARK_JARS = {
    "com.fasterxml.jackson.core:jackson-annotations:2.15.2": "04e21f94dcfee4b078fa5a5f53047b785aaba69d19de392f616e7a7fe5d3882f",
    "com.esotericsoftware:kryo-shaded:4.0.2": "a4899f57fef456b9ec66f730e7b493ecb3dc494cc5758721ed9c18416fd2d3b6",
    "org.apache.hadoop:hadoop-client-api:3.3.4": "e513d71b78086b5caaa439f4402b43e20df01446d56b66084ad419452878701c",
    "org.apache.spark:spark-catalyst_2.12:3.5.9": "58715b96ee0dd847848d8096ea8da8409ee888689dbe71ec1fd07237f0d4d4d1",
    "org.apache.spark:spark-common-utils_2.12:3.5.9": "f67adc2920421c041c838bd36ef54cf46ae8e114cfb85b8794a220535690b9ad",
    "org.apache.spark:spark-core_2.12:3.5.9": "f8c2a9001598855b08a8f85adc66a7bec80b0e25109f0149a34e350f9340d788",
    "org.apache.spark:spark-sql-api_2.12:3.5.9": "9f6ea16201c783c2bfde5e913405b7d9997ad2ebd840a4977f96e82bb7d64544",
    "org.apache.spark:spark-sql_2.12:3.5.9": "7c2c0e0f551373eb80efa066e2d5d4fe878372f6f69403eae0d09b652d071083",
    "org.apache.spark:spark-streaming_2.12:3.5.6": "a0079d4555043841995b16fca44a8d1f7d8521caee9b2ae4306934bdbfcbe58e",
    "org.apache.spark:spark-tags_2.12:3.5.9": "5c823b3b4782733f2af6990a1448b214af3916e2229d60b347e342166cbdd47a",
    "org.apache.spark:spark-unsafe_2.12:3.5.9": "13463c25d402f1c63caa7a0fca3bc0a055b048b0f5948cf363234b301c35d548",
    "org.scala-lang:scala-library:2.12.18": "e51e6636c003359e106bea4ad99def70e613c290190c8c84f10f9560dd5b00ae",
    "org.scala-lang:scala-reflect:2.12.18": "d6a24e175246541ffcbc965a231aa1d3bb01d61def196f91495690fabf9783bc",
    "org.slf4j:slf4j-api:2.0.7": "5d6298b93a1905c32cda6478808ac14c2d4a47e91535e53c41f7feeb85d946f4",
}

def spark_jars(jars, suffix = ""):
    """Declares the jars, given as artifact to sha256, each as maven_<group>_<name><suffix>."""
    for artifact, sha256 in jars.items():
        group, jar, _ = artifact.split(":")
        maybe(
            maven_jar,
            name = "maven_" + (group + "_" + jar + suffix).replace(".", "_").replace("-", "_"),
            artifact = artifact,
            sha256 = sha256,
        )

def library_repositories():
    """Declares what Millrace's libraries and programs are built with, but for Bazel's own rules."""
    _system_libraries()
    _source_distributions()
    _maven_jars()
    spark_jars(_SPARK_JARS)

def millrace_repositories():
    """Declares what Millrace's libraries and programs are built with, and its Python toolchain.

    Called once, in the WORKSPACE of whoever builds them. A repository under its usual name that is declared
    already stays as it is; what is named millrace_... is ours."""
    _bazel_rules()
    library_repositories()
    native.register_toolchains("@millrace//third_party/bazel:python3")
