"""The Go of this machine with the gcc that cgo needs, for tests that build a program of Go themselves.

The repository holds `version.txt`, what `go version` says or "none": tests that use Go depend on `//:version`, so that
they run again once it is installed. With MILLRACE_REQUIRE_GO=1 it is an error for `./bazelw test` and `run` if it is
not there.
"""

# Where the tests look too.
_VERSION = "PATH=\"$PATH:/usr/local/go/bin:/usr/lib/go/bin\"; gcc --version >/dev/null && go version"

_BUILD = """\
filegroup(
    name = "version",
    srcs = ["version.txt"],
    visibility = ["//visibility:public"],
)
"""

def _system_go_impl(ctx):
    result = ctx.execute(["/usr/bin/env", "sh", "-c", _VERSION])
    version = result.stdout.strip() if result.return_code == 0 else "none"
    may_build = ctx.os.environ.get("MILLRACE_BUILD_GO", "") == "1"
    if version == "none" and may_build and ctx.os.environ.get("MILLRACE_REQUIRE_GO", "") == "1":
        fail("\nMILLRACE_REQUIRE_GO=1, but there is no Go, or no gcc, which cgo needs: %s" % result.stderr)
    ctx.file("version.txt", version + "\n", executable = False)
    ctx.file("BUILD", _BUILD, executable = False)
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name, executable = False)

system_go = repository_rule(
    implementation = _system_go_impl,
    local = True,
    environ = ["MILLRACE_BUILD_GO", "MILLRACE_REQUIRE_GO", "PATH"],
)
