"""The C++ rules of this repository: those of rules_cc, with the language standard in each target.

    load("//third_party/bazel:cc.bzl", "cc_binary", "cc_library", "cc_test")

A program of another repository that depends on such a target builds it as it is built here, whatever
the flags of that repository's .bazelrc.
"""

load("@rules_cc//cc:defs.bzl", _cc_binary = "cc_binary", _cc_library = "cc_library", _cc_test = "cc_test")
load(":cc_proto_library.bzl", _cc_proto_library = "cc_proto_library")
load(":cc_standard.bzl", "CXX_STANDARD")
load(":system_link.bzl", "with_shared_libraries")

cc_proto_library = _cc_proto_library

def _is_c(srcs):
    """Whether all sources are C, which has another standard; a target has sources of one language."""
    return type(srcs) == type([]) and bool(srcs) and all([source.endswith(".c") for source in srcs])

def _with_standard(rule, name, srcs = [], copts = [], **kwargs):
    rule(
        name = name,
        srcs = srcs,
        copts = copts if _is_c(srcs) else CXX_STANDARD + copts,
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
    _with_standard(_cc_binary, name, deps = deps, linkshared = linkshared, **kwargs)

def cc_library(name, **kwargs):
    _with_standard(_cc_library, name, **kwargs)

def cc_test(name, **kwargs):
    _with_standard(_cc_test, name, **kwargs)
