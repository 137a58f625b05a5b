"""Source distributions from PyPI, fetched with pip and pinned by sha256.

The archive is looked for in ~/.cache/millrace/dist/<sha256>/ first and kept there once downloaded,
so that the next clone needs no network (Bazel's own cache does not see what a rule executes).

`pip download` asks a source distribution's build backend for its metadata, even with --no-deps, and
for that would download the backend and configure the package (compilers, Python headers and all).
Only the archive is wanted: a stand-in of the backend's name answers instead.
"""

_BACKEND = """\
import os

def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    name = "{package}-{version}.dist-info"
    os.makedirs(os.path.join(metadata_directory, name))
    with open(os.path.join(metadata_directory, name, "METADATA"), "w") as out:
        out.write("Metadata-Version: 2.1\\nName: {package}\\nVersion: {version}\\n")
    return name
"""

def _write_backend(ctx, directory):
    """Writes the stand-in of the build backend, as a module below `directory`."""
    modules = ctx.attr.build_backend.split(".")
    for depth in range(1, len(modules)):
        ctx.file("/".join([directory] + modules[:depth] + ["__init__.py"]), "", executable = False)
    ctx.file(
        "/".join([directory] + modules) + ".py",
        _BACKEND.format(package = ctx.attr.package.replace("-", "_"), version = ctx.attr.version),
        executable = False,
    )
    python_path = ctx.os.environ.get("PYTHONPATH", "")
    return str(ctx.path(directory)) + (":" + python_path if python_path else "")

def _sha256(ctx, path):
    result = ctx.execute(["sha256sum", path])
    return result.stdout.split(" ")[0] if result.return_code == 0 else ""

def _edit(ctx, path, edits):
    text = ctx.read(path)
    for i in range(0, len(edits), 2):
        if text.count(edits[i]) != 1:
            fail("%s of %s does not hold this text once:\n%s" % (path, ctx.attr.package, edits[i]))
        text = text.replace(edits[i], edits[i + 1])
    ctx.file(path, text, executable = False)

def _pypi_source_impl(ctx):
    requirement = "%s==%s" % (ctx.attr.package, ctx.attr.version)
    home = ctx.os.environ.get("HOME", "")
    cache = "%s/.cache/millrace/dist/%s" % (home, ctx.attr.sha256) if home else ""
    archive = ""
    if cache:
        found = ctx.execute(["sh", "-c", "ls \"$1\"/*.tar.gz 2>/dev/null | head -n 1", "sh", cache])
        archive = found.stdout.strip()
        if archive and _sha256(ctx, archive) != ctx.attr.sha256:
            archive = ""
    if not archive:
        ctx.report_progress("downloading %s with pip" % requirement)
        result = ctx.execute(
            [
                "python3",
                "-m",
                "pip",
                "download",
                "--quiet",
                "--disable-pip-version-check",
                "--no-deps",
                "--no-build-isolation",
                "--no-binary",
                ctx.attr.package,
                "--dest",
                "download",
                requirement,
            ],
            environment = {"PYTHONPATH": _write_backend(ctx, "download/backend")},
            timeout = 1800,
        )
        if result.return_code != 0:
            fail(("\npip cannot download the source distribution %s:\n%s\n" +
                  "To build without a network, put the archive with sha256 %s into ~/.cache/millrace/dist/%s/\n") %
                 (requirement, result.stderr, ctx.attr.sha256, ctx.attr.sha256))
        archive = ctx.execute(["sh", "-c", "ls \"$PWD\"/download/*.tar.gz | head -n 1"]).stdout.strip()
        actual = _sha256(ctx, archive)
        if actual != ctx.attr.sha256:
            fail("\n%s has sha256 %s, expected %s.\n" % (requirement, actual, ctx.attr.sha256))
        if cache:
            # A failure to keep it only costs the next clone a download.
            ctx.execute([
                "sh",
                "-c",
                "mkdir -p \"$2\" && cp \"$1\" \"$2/.part.$$\" && mv \"$2/.part.$$\" \"$2/$(basename \"$1\")\"",
                "sh",
                archive,
                cache,
            ])
    result = ctx.execute(
        ["tar", "xzf", archive, "--strip-components=1", "--wildcards"] +
        ["--exclude=%s" % pattern for pattern in ctx.attr.exclude] +
        ["*/" + pattern for pattern in ctx.attr.include],
    )
    if result.return_code != 0:
        fail("Cannot unpack %s: %s" % (archive, result.stderr))
    ctx.execute(["rm", "-rf", "download"])

    # Build files of other build systems' packages inside the archive are not ours.
    build_files = ["(", "-name", "BUILD", "-o", "-name", "BUILD.bazel", ")"]
    ctx.execute(["find", ".", "-mindepth", "2"] + build_files + ["-type", "f", "-delete"])
    for link, target in ctx.attr.links.items():
        ctx.symlink(target, link)
    for path, content in ctx.attr.files.items():
        ctx.file(path, content, executable = False)
    for path, edits in ctx.attr.edits.items():
        _edit(ctx, path, edits)
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name, executable = False)
    ctx.symlink(ctx.attr.build_file, "BUILD")

pypi_source = repository_rule(
    implementation = _pypi_source_impl,
    attrs = {
        "package": attr.string(mandatory = True),
        "version": attr.string(mandatory = True),
        "sha256": attr.string(mandatory = True),
        "build_backend": attr.string(
            mandatory = True,
            doc = "What the archive's pyproject.toml says under build-system, build-backend.",
        ),
        "exclude": attr.string_list(doc = "tar patterns that are not unpacked."),
        "include": attr.string_list(
            doc = "tar patterns below the archive's top folder; only these are unpacked. Empty: everything.",
        ),
        "links": attr.string_dict(doc = "Symlinks to add: name to target."),
        "files": attr.string_dict(doc = "Files to add: name to content."),
        "edits": attr.string_list_dict(doc = "File to pairs: a text that it holds once, the text in its place."),
        "build_file": attr.label(mandatory = True, allow_single_file = True),
    },
)
