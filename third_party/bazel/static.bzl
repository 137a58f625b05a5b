"""Fully static executables.

    load("//third_party/bazel:static.bzl", "FULLY_STATIC")

    cc_binary(
        name = "millrace-agent",
        srcs = ["main.cc"],
        features = FULLY_STATIC,
        deps = [...],
    )

The system libraries that such a binary may reach are the ones with complete static archives: gRPC,
Protobuf, Abseil, OpenSSL, c-ares, RE2, yaml-cpp, zlib. Names of hosts are looked up by c-ares, since
glibc's getaddrinfo() loads libraries. Sanitizer runtimes cannot be part of a static executable, so
the feature is dropped under them.
"""

FULLY_STATIC = select({
    str(Label("//third_party/bazel:sanitizer")): [],
    "//conditions:default": ["fully_static_link"],
})
