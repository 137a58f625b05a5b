"""One jar from a Maven repository, fetched with mvn by its coordinates and pinned by sha256.

The repository offers `//:jar`. It is fetched when a target that needs it is built, and not before. The
jar is looked for in ~/.cache/millrace/dist/<sha256>/ first and kept there once downloaded, so that the
next clone needs neither mvn nor a network. What the jar depends on is stated in `jar_deps`, not
resolved. With `edits` some of its source files are changed, compiled, and put before the jar.
"""

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy"

_BUILD = """\
load("@{workspace}//third_party/bazel:java_rules.bzl", "java_import", "java_library")

java_import(
    name = "{name}",
    jars = ["{jar}"],
    deps = {deps},
    visibility = ["//visibility:public"],
)
"""

_EDITED_BUILD = """
java_library(
    name = "jar",
    srcs = {srcs},
    exports = [":upstream"],
    lint = False,
    visibility = ["//visibility:public"],
)
"""

def _sha256(ctx, path):
    result = ctx.execute(["sha256sum", path])
    return result.stdout.split(" ")[0] if result.return_code == 0 else ""

def _download(ctx, artifact, jar, sha256):
    ctx.report_progress("downloading %s with mvn" % artifact)
    mvn = ctx.which("mvn")
    if not mvn:
        fail("\nmvn is not installed (Debian package maven), and %s is not in ~/.cache/millrace/dist/%s.\n" %
             (artifact, sha256))
    result = ctx.execute(
        [mvn, "-q", "-B", _PLUGIN, "-Dartifact=" + artifact, "-DoutputDirectory=" + str(ctx.path("download"))],
        timeout = 1800,
    )
    if result.return_code != 0:
        fail(("\nmvn cannot download %s:\n%s%s\n" +
              "To build without a network, put the jar with sha256 %s into ~/.cache/millrace/dist/%s/\n") %
             (artifact, result.stdout, result.stderr, sha256, sha256))
    actual = _sha256(ctx, "download/" + jar)
    if actual != sha256:
        fail("\n%s has sha256 %s, expected %s.\n" % (artifact, actual, sha256))
    return "download/" + jar

def _provide(ctx, artifact, jar, sha256):
    """Puts the jar into the repository."""
    home = ctx.os.environ.get("HOME", "")
    cache = "%s/.cache/millrace/dist/%s" % (home, sha256) if home else ""
    kept = cache + "/" + jar
    if not cache or _sha256(ctx, kept) != sha256:
        kept = _download(ctx, artifact, jar, sha256)
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

def _edit(ctx, path, edits):
    text = ctx.read(path)
    for i in range(0, len(edits), 2):
        if text.count(edits[i]) != 1:
            fail("%s of %s does not hold this text once:\n%s" % (path, ctx.attr.artifact, edits[i]))
        text = text.replace(edits[i], edits[i + 1])
    ctx.file(path, text, executable = False)

def _maven_jar_impl(ctx):
    group, name, version = ctx.attr.artifact.split(":")
    jar = "%s-%s.jar" % (name, version)
    _provide(ctx, ctx.attr.artifact, jar, ctx.attr.sha256)
    edited = bool(ctx.attr.edits)
    build = _BUILD.format(
        workspace = "millrace",
        name = "upstream" if edited else "jar",
        jar = jar,
        deps = ctx.attr.jar_deps,
    )
    if edited:
        sources = "%s-%s-sources.jar" % (name, version)
        _provide(ctx, "%s:%s:%s:jar:sources" % (group, name, version), sources, ctx.attr.sources_sha256)
        script = "import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(members=sys.argv[2:])"
        result = ctx.execute(["python3", "-c", script, sources] + ctx.attr.edits.keys())
        if result.return_code != 0:
            fail("Cannot unpack %s: %s" % (sources, result.stderr))
        for path, edits in ctx.attr.edits.items():
            _edit(ctx, path, edits)
        build += _EDITED_BUILD.format(srcs = ctx.attr.edits.keys())
    ctx.execute(["rm", "-rf", "download"])
    ctx.file("BUILD", build, executable = False)
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name, executable = False)

maven_jar = repository_rule(
    implementation = _maven_jar_impl,
    attrs = {
        "artifact": attr.string(mandatory = True, doc = "group:artifact:version."),
        "sha256": attr.string(mandatory = True),
        "sources_sha256": attr.string(doc = "Of the sources jar, if there are `edits`."),
        "edits": attr.string_list_dict(doc = "Source file to pairs: a text that it holds once, the text in its place."),
        "jar_deps": attr.string_list(doc = "Labels of java_import targets that it needs to run."),
    },
)
