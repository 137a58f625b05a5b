"""A test that the simulator finds a bug."""

load("//third_party/bazel:cc.bzl", "cc_test")

def planted_bug(name, source, deps):
    """A cc_test `<name>_is_found`: bug `name` of plant.py, in `source`.

    The copy is linked in place of the library's own object, which the linker leaves in its archive
    since all that it defines is there already. `deps` are those of the source.
    """
    copy = name + "/" + Label(source).name
    native.genrule(
        name = name + "_source",
        testonly = True,
        srcs = [source],
        outs = [copy],
        cmd = "$(execpath :plant) %s $< > $@" % name,
        tools = [":plant"],
    )
    cc_test(
        name = name + "_is_found",
        size = "medium",
        srcs = [
            "planted_bug_test.cc",
            copy,
        ],
        env = {"MILLRACE_LOG": "error"},
        deps = [
            ":simulation",
            "@com_google_googletest//:gtest_main",
        ] + deps,
    )
