"""A Python of some release of Debian in a root folder of its own, for tests: downloaded once with apt, and kept.

The repository holds `root.tar`, an archive of the root folder, or, where there is none, `unavailable.txt` with the
reason; `//:python` is what there is. Only `./bazelw test` and `run` download (bazelw says so in
MILLRACE_FETCH_PYTHONS), other commands take what is kept already. With MILLRACE_REQUIRE_PYTHONS=1 a Python that cannot
be had is an error. See debian_python.py.
"""

_BUILD = """\
filegroup(
    name = "python",
    srcs = ["%s"],
    visibility = ["//visibility:public"],
)
"""

def _debian_python_impl(ctx):
    may_fetch = ctx.os.environ.get("MILLRACE_FETCH_PYTHONS", "") == "1"
    ctx.report_progress("downloading Python %s if it is not kept yet" % ctx.attr.version)
    result = ctx.execute(
        [
            "/usr/bin/env",
            "python3",
            ctx.path(ctx.attr._provider),
            "--version=" + ctx.attr.version,
            "--suites=" + ",".join(ctx.attr.suites),
            "--into=.",
        ] + (["--fetch"] if may_fetch else []) +
        ["--parts"] + ctx.attr.parts,
        timeout = 1800,
        quiet = False,
    )
    if result.return_code != 0:
        fail("\nPython %s cannot be provided:\n%s" % (ctx.attr.version, result.stderr))
    available = ctx.path("root.tar").exists
    if may_fetch and not available and ctx.os.environ.get("MILLRACE_REQUIRE_PYTHONS", "") == "1":
        fail("\nMILLRACE_REQUIRE_PYTHONS=1, but %s" % ctx.read("unavailable.txt"))
    ctx.file("BUILD", _BUILD % ("root.tar" if available else "unavailable.txt"), executable = False)
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name, executable = False)

debian_python = repository_rule(
    implementation = _debian_python_impl,
    local = True,
    environ = ["MILLRACE_FETCH_PYTHONS", "MILLRACE_REQUIRE_PYTHONS"],
    attrs = {
        "version": attr.string(mandatory = True, doc = "3.14"),
        "suites": attr.string_list(mandatory = True, doc = "Debian's names: of each package the newest is taken."),
        "parts": attr.string_list(doc = "PACKAGE/SUITE: of Python, without what they depend on."),
        "_provider": attr.label(default = "//third_party/bazel:debian_python.py", allow_single_file = True),
    },
)
