"""Programs and tests whose threads are scheduled (core/base/thread_scheduler.h)."""

load("//third_party/bazel:cc.bzl", "cc_test")

def _transition_impl(_settings, _attr):
    return {"//core/base:scheduled_threads": True}

_transition = transition(
    implementation = _transition_impl,
    inputs = [],
    outputs = ["//core/base:scheduled_threads"],
)

def _impl(ctx):
    target = ctx.attr.target[0]
    program = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(output = program, target_file = ctx.executable.target, is_executable = True)
    return [
        DefaultInfo(executable = program, runfiles = target[DefaultInfo].default_runfiles),
        testing.TestEnvironment(ctx.attr.env),
    ]

_ATTRS = {
    "target": attr.label(cfg = _transition, executable = True, mandatory = True),
    "env": attr.string_dict(),
    "_allowlist_function_transition": attr.label(
        default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
    ),
}

scheduled_binary = rule(implementation = _impl, executable = True, attrs = _ATTRS)
scheduled_test = rule(implementation = _impl, test = True, attrs = _ATTRS)

def planted_schedule_bug(name, source, deps):
    """A test `<name>_is_found`: bug `name` of //testing/simulation:plant.py, in `source`.

    The copy is linked in place of the library's own object, which the linker leaves in its archive
    since all that it defines is there already. `deps` are those of the source.
    """
    copy = name + "/" + Label(source).name
    native.genrule(
        name = name + "_source",
        testonly = True,
        srcs = [source],
        outs = [copy],
        cmd = "$(execpath //testing/simulation:plant) %s $< > $@" % name,
        tools = ["//testing/simulation:plant"],
    )
    cc_test(
        name = name + "_program",
        srcs = [
            "planted_schedule_test.cc",
            copy,
        ],
        tags = ["manual"],
        deps = [
            ":feed_world",
            "//core/base:thread_scheduler",
            "@com_google_googletest//:gtest_main",
        ] + deps,
    )
    scheduled_test(
        name = name + "_is_found",
        size = "medium",
        env = {"MILLRACE_LOG": "error"},
        target = ":" + name + "_program",
    )
