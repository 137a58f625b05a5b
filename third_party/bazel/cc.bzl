"""The C++ rules of this repository: those of rules_cc, with the language standard in each target.

    load("//third_party/bazel:cc.bzl", "cc_binary", "cc_library", "cc_test")

A program of another repository that depends on such a target builds it as it is built here, whatever
the flags of that repository's .bazelrc. In this repository's fast builds a source begins with headers that are
parsed already (precompiled_header.bzl).
"""

load("@rules_cc//cc:defs.bzl", _cc_binary = "cc_binary", _cc_library = "cc_library", _cc_test = "cc_test")
load(":cc_proto_library.bzl", _cc_proto_library = "cc_proto_library")
load(":cc_standard.bzl", "CXX_STANDARD")
load(":system_link.bzl", "with_shared_libraries")

cc_proto_library = _cc_proto_library

def _is_c(srcs):
    """Whether all sources are C, which has another standard; a target has sources of one language."""
    return type(srcs) == type([]) and bool(srcs) and all([source.endswith(".c") for source in srcs])

# A precompiled header fills most of the heap at which GCC's garbage collector first runs: 400 MB let it run in
# few sources only. Clang knows the headers in it relative to the folder in which Bazel compiles.
_GCC_COPTS = ["--param=ggc-min-heapsize=400000"]
_CLANG_COPTS = ["-isysroot", "."]

# Where the precompiled headers are: Clang looks for them only at the path that it is given.
_PRECOMPILED_FOLDER = "$(BINDIR)/" + "/".join(
    [part for part in [Label("//third_party/bazel:cc.bzl").workspace_root, "third_party/bazel"] if part],
)

def _precompiled(value, setting = "precompiled"):
    return select({
        str(Label("//third_party/bazel:" + setting)): value,
        "//conditions:default": [],
    })

def _with_standard(rule, name, headers, srcs = [], copts = [], deps = [], **kwargs):
    if not _is_c(srcs):
        copts = CXX_STANDARD + copts
    if not _is_c(srcs) and not [copt for copt in copts if copt.startswith("-O")]:
        include = "%s/%s.precompiled.h" % (_PRECOMPILED_FOLDER, headers)
        copts = copts + _precompiled(["-include", include])
        copts = copts + _precompiled(_GCC_COPTS, "precompiled_by_gcc")
        copts = copts + _precompiled(_CLANG_COPTS, "precompiled_by_clang")
        deps = deps + _precompiled([Label("//third_party/bazel:" + headers)])
    rule(
        name = name,
        srcs = srcs,
        copts = copts,
        deps = deps,
        **kwargs
    )

def cc_binary(name, deps = [], linkshared = False, **kwargs):
    if linkshared:
        libraries = name + "_libraries"
        with_shared_libraries(
            name = libraries,
            testonly = kwargs.get("testonly", False),
            visibility = ["//visibility:private"],
            deps = deps,
        )
        deps = [":" + libraries]
    _with_standard(_cc_binary, name, "common_headers", deps = deps, linkshared = linkshared, **kwargs)

def cc_library(name, **kwargs):
    _with_standard(_cc_library, name, "common_headers", **kwargs)

def cc_test(name, **kwargs):
    _with_standard(_cc_test, name, "common_test_headers", **kwargs)
