"""What repository rules do with an archive of sources, however they fetch it: pypi_source.bzl, debian_source.bzl.

    archive = kept_archive(ctx)          # or fetched, and then checked and kept by keep_archive(ctx, archive)
    unpack_archive(ctx, archive)

The archive is looked for in ~/.cache/millrace/dist/<sha256>/ first and kept there once downloaded, so that the next
clone needs no network (Bazel's own cache does not see what a rule executes).
"""

ARCHIVE_ATTRS = {
    "version": attr.string(mandatory = True),
    "sha256": attr.string(mandatory = True),
    "exclude": attr.string_list(doc = "tar patterns that are not unpacked."),
    "include": attr.string_list(
        doc = "tar patterns below the archive's top folder; only these are unpacked. Empty: everything.",
    ),
    "links": attr.string_dict(doc = "Symlinks to add: name to target."),
    "files": attr.string_dict(doc = "Files to add: name to content."),
    "edits": attr.string_list_dict(doc = "File to pairs: a text that it holds once, the text in its place."),
    "build_file": attr.label(mandatory = True, allow_single_file = True),
}

def _sha256(ctx, path):
    result = ctx.execute(["sha256sum", path])
    return result.stdout.split(" ")[0] if result.return_code == 0 else ""

def _cache(ctx):
    home = ctx.os.environ.get("HOME", "")
    return "%s/.cache/millrace/dist/%s" % (home, ctx.attr.sha256) if home else ""

def kept_archive(ctx):
    """Returns the path of the archive, or "" if it is not kept."""
    cache = _cache(ctx)
    if not cache:
        return ""
    archive = ctx.execute(["sh", "-c", "ls \"$1\"/*.tar.* 2>/dev/null | head -n 1", "sh", cache]).stdout.strip()
    return archive if archive and _sha256(ctx, archive) == ctx.attr.sha256 else ""

def offline_hint(ctx):
    """Returns what to do without a network."""
    return ("To build without a network, put the archive with sha256 %s into ~/.cache/millrace/dist/%s/\n" %
            (ctx.attr.sha256, ctx.attr.sha256))

def keep_archive(ctx, archive, name):
    """Fails if what was downloaded for `name` is another archive. Keeps it for the next clone."""
    actual = _sha256(ctx, archive)
    if actual != ctx.attr.sha256:
        fail("\n%s has sha256 %s, expected %s.\n" % (name, actual, ctx.attr.sha256))
    if _cache(ctx):
        # A failure to keep it only costs the next clone a download.
        ctx.execute([
            "sh",
            "-c",
            "mkdir -p \"$2\" && cp \"$1\" \"$2/.part.$$\" && mv \"$2/.part.$$\" \"$2/$(basename \"$1\")\"",
            "sh",
            archive,
            _cache(ctx),
        ])

def _edit(ctx, path, edits):
    text = ctx.read(path)
    for i in range(0, len(edits), 2):
        if text.count(edits[i]) != 1:
            fail("%s of %s does not hold this text once:\n%s" % (path, ctx.name, edits[i]))
        text = text.replace(edits[i], edits[i + 1])
    ctx.file(path, text, executable = False)

def unpack_archive(ctx, archive):
    """Makes the repository of the archive and of the rule's other attributes."""
    result = ctx.execute(
        ["tar", "xf", archive, "--strip-components=1", "--wildcards"] +
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
