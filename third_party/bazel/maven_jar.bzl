"""One jar from a Maven repository, fetched with mvn by its coordinates and pinned by sha256.

The repository offers `//:jar`. It is fetched when a target that needs it is built, and not before. The
jar is looked for in ~/.cache/millrace/dist/<sha256>/ first and kept there once downloaded, so that the
next clone needs neither mvn nor a network. What the jar depends on is stated in `deps`, not resolved.
"""

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy"

_BUILD = """\
load("@{workspace}//third_party/bazel:java_rules.bzl", "java_import")

java_import(
    name = "jar",
    jars = ["{jar}"],
    deps = {deps},
    visibility = ["//visibility:public"],
)
"""

def _sha256(ctx, path):
    result = ctx.execute(["sha256sum", path])
    return result.stdout.split(" ")[0] if result.return_code == 0 else ""

def _download(ctx, jar):
    ctx.report_progress("downloading %s with mvn" % ctx.attr.artifact)
    mvn = ctx.which("mvn")
    if not mvn:
        fail("\nmvn is not installed (Debian package maven), and %s is not in ~/.cache/millrace/dist/%s.\n" %
             (ctx.attr.artifact, ctx.attr.sha256))
    result = ctx.execute(
        [mvn, "-q", "-B", _PLUGIN, "-Dartifact=" + ctx.attr.artifact, "-DoutputDirectory=" + str(ctx.path("download"))],
        timeout = 1800,
    )
    if result.return_code != 0:
        fail("\nmvn cannot download %s:\n%s%s\nTo build without a network, put the jar with sha256 %s into ~/.cache/millrace/dist/%s/\n" %
             (ctx.attr.artifact, result.stdout, result.stderr, ctx.attr.sha256, ctx.attr.sha256))
    actual = _sha256(ctx, "download/" + jar)
    if actual != ctx.attr.sha256:
        fail("\n%s has sha256 %s, expected %s.\n" % (ctx.attr.artifact, actual, ctx.attr.sha256))
    return "download/" + jar

def _maven_jar_impl(ctx):
    coordinates = ctx.attr.artifact.split(":")
    jar = "%s-%s.jar" % (coordinates[1], coordinates[2])
    home = ctx.os.environ.get("HOME", "")
    cache = "%s/.cache/millrace/dist/%s" % (home, ctx.attr.sha256) if home else ""
    kept = cache + "/" + jar
    if not cache or _sha256(ctx, kept) != ctx.attr.sha256:
        kept = _download(ctx, jar)
        if cache:
            # A failure to keep it only costs the next clone a download.
            ctx.execute([
                "sh",
                "-c",
                "mkdir -p \"$2\" && cp \"$1\" \"$2/.part.$$\" && mv \"$2/.part.$$\" \"$2/$3\"",
                "sh",
                kept,
                cache,
                jar,
            ])
    result = ctx.execute(["cp", kept, jar])
    if result.return_code != 0:
        fail("Cannot copy %s: %s" % (kept, result.stderr))
    ctx.execute(["rm", "-rf", "download"])
    build = _BUILD.format(workspace = "millrace", jar = jar, deps = ctx.attr.jar_deps)
    ctx.file("BUILD", build, executable = False)
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name, executable = False)

maven_jar = repository_rule(
    implementation = _maven_jar_impl,
    attrs = {
        "artifact": attr.string(mandatory = True, doc = "group:artifact:version."),
        "sha256": attr.string(mandatory = True),
        "jar_deps": attr.string_list(doc = "Labels of java_import targets that it needs to run."),
    },
)
