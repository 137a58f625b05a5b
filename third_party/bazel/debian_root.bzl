"""A root folder of some release of Debian, for tests: made once with debootstrap, and kept.

The repository holds `root.tar`, an archive of the root folder, or, where there is none, `unavailable.txt` with the
reason; `//:root` is what there is. Only `./bazelw test` and `run` make one (bazelw says so in MILLRACE_FETCH_ROOTS),
other commands take what is kept already. With MILLRACE_REQUIRE_ROOTS=1 a root that cannot be had is an error. See
debian_root.py.
"""

_BUILD = """\
filegroup(
    name = "root",
    srcs = ["%s"],
    visibility = ["//visibility:public"],
)
"""

def _debian_root_impl(ctx):
    may_fetch = ctx.os.environ.get("MILLRACE_FETCH_ROOTS", "") == "1"
    ctx.path(ctx.attr._debian_python)
    ctx.report_progress("making a root of Debian's %s if it is not kept yet" % ctx.attr.suite)
    result = ctx.execute(
        [
            "/usr/bin/env",
            "python3",
            "-B",
            ctx.path(ctx.attr._provider),
            "--suite=" + ctx.attr.suite,
            "--into=.",
        ] + (["--fetch"] if may_fetch else []) +
        ["--packages"] + ctx.attr.packages,
        timeout = 1800,
        quiet = False,
    )
    if result.return_code != 0:
        fail("\nA root of %s cannot be provided:\n%s" % (ctx.attr.suite, result.stderr))
    available = ctx.path("root.tar").exists
    if may_fetch and not available and ctx.os.environ.get("MILLRACE_REQUIRE_ROOTS", "") == "1":
        fail("\nMILLRACE_REQUIRE_ROOTS=1, but %s" % ctx.read("unavailable.txt"))
    ctx.file("BUILD", _BUILD % ("root.tar" if available else "unavailable.txt"), executable = False)
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name, executable = False)

debian_root = repository_rule(
    implementation = _debian_root_impl,
    local = True,
    environ = ["MILLRACE_FETCH_ROOTS", "MILLRACE_REQUIRE_ROOTS"],
    attrs = {
        "suite": attr.string(mandatory = True, doc = "Debian's name: bookworm."),
        "packages": attr.string_list(doc = "Besides the smallest system that has apt, with all that they need."),
        "_provider": attr.label(default = "//third_party/bazel:debian_root.py", allow_single_file = True),
        "_debian_python": attr.label(default = "//third_party/bazel:debian_python.py", allow_single_file = True),
    },
)
