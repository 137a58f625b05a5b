"""Fuzz targets: one source, a test over its corpus, and a program for libFuzzer."""

load("//third_party/bazel:cc.bzl", "cc_binary", "cc_library", "cc_test")

def fuzz_target(name, deps):
    """<name>_corpus_test (any compiler) and <name>_fuzzer (--config=fuzz only) of <name>_fuzz.cc."""
    cc_library(
        name = name + "_fuzz",
        testonly = True,
        srcs = [name + "_fuzz.cc"],
        deps = deps + [":fuzz"],
    )
    cc_test(
        name = name + "_corpus_test",
        size = "small",
        srcs = ["replay_main.cc"],
        args = ["testing/fuzz/corpus/" + name],
        data = native.glob(["corpus/%s/*" % name]),
        deps = [
            ":fuzz",
            ":" + name + "_fuzz",
            "//core/base:file",
            "@com_google_absl//absl/status:statusor",
            "@com_google_absl//absl/strings",
        ],
    )
    cc_binary(
        name = name + "_fuzzer",
        testonly = True,
        srcs = ["fuzzer_main.cc"],
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = [
            ":fuzz",
            ":" + name + "_fuzz",
            "@com_google_absl//absl/strings",
        ],
    )
