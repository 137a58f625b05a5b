"""Source distributions from PyPI, fetched with pip, pinned by sha256 and kept (source_archive.bzl).

`pip download` asks a source distribution's build backend for its metadata, even with --no-deps, and
for that would download the backend and configure the package (compilers, Python headers and all).
Only the archive is wanted: a stand-in of the backend's name answers instead.
"""

load(":source_archive.bzl", "ARCHIVE_ATTRS", "keep_archive", "kept_archive", "offline_hint", "unpack_archive")

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

def _download(ctx):
    requirement = "%s==%s" % (ctx.attr.package, ctx.attr.version)
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
        fail("\npip cannot download the source distribution %s:\n%s\n%s" %
             (requirement, result.stderr, offline_hint(ctx)))
    archive = ctx.execute(["sh", "-c", "ls \"$PWD\"/download/*.tar.gz | head -n 1"]).stdout.strip()
    keep_archive(ctx, archive, requirement)
    return archive

def _pypi_source_impl(ctx):
    unpack_archive(ctx, kept_archive(ctx) or _download(ctx))

pypi_source = repository_rule(
    implementation = _pypi_source_impl,
    attrs = dict(
        ARCHIVE_ATTRS,
        package = attr.string(mandatory = True),
        build_backend = attr.string(
            mandatory = True,
            doc = "What the archive's pyproject.toml says under build-system, build-backend.",
        ),
    ),
)
