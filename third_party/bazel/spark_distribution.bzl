"""A complete Spark, for tests: downloaded once, pinned by version and sha256, kept unpacked.

The repository holds `home`, a Spark home, or, where there is none, `unavailable.txt` with the reason;
`//:spark` is what there is. Only `./bazelw test` and `run` download (bazelw says so in
MILLRACE_FETCH_SPARK), other commands take what is kept already. With MILLRACE_REQUIRE_SPARK=1 a Spark
that cannot be had is an error. See spark_distribution.py.
"""

_BUILD = """\
filegroup(
    name = "spark",
    srcs = glob(["unavailable.txt"]) + %s,
    visibility = ["//visibility:public"],
)
"""

def _spark_distribution_impl(ctx):
    may_fetch = ctx.os.environ.get("MILLRACE_FETCH_SPARK", "") == "1"
    ctx.report_progress("downloading Spark %s if it is not kept yet" % ctx.attr.version)
    result = ctx.execute(
        [
            "/usr/bin/env",
            "python3",
            ctx.path(ctx.attr._provider),
            "--version=" + ctx.attr.version,
            "--sha256=" + ctx.attr.sha256,
            "--into=.",
        ] + (["--fetch"] if may_fetch else []),
        timeout = 3600,
        quiet = False,
    )
    if result.return_code != 0:
        fail("\nSpark %s cannot be provided:\n%s" % (ctx.attr.version, result.stderr))
    available = ctx.path("home").exists
    if may_fetch and not available and ctx.os.environ.get("MILLRACE_REQUIRE_SPARK", "") == "1":
        fail("\nMILLRACE_REQUIRE_SPARK=1, but Spark %s is not available: %s" %
             (ctx.attr.version, ctx.read("unavailable.txt")))

    # One link to a folder that never changes, in place of one for each of its hundreds of files.
    ctx.file("BUILD", _BUILD % ("[\"home\"]" if available else "[]"), executable = False)
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name, executable = False)

spark_distribution = repository_rule(
    implementation = _spark_distribution_impl,
    local = True,
    environ = ["MILLRACE_FETCH_SPARK", "MILLRACE_REQUIRE_SPARK"],
    attrs = {
        "version": attr.string(mandatory = True, doc = "Of PySpark."),
        "sha256": attr.string(mandatory = True, doc = "Of its source distribution."),
        "_provider": attr.label(default = "//third_party/bazel:spark_distribution.py", allow_single_file = True),
    },
)
