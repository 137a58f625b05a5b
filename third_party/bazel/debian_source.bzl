"""Upstream's source archives as Debian keeps them, fetched with apt, pinned by sha256 and kept (source_archive.bzl).

    debian_source(
        name = "millrace_curl",
        package = "curl",
        version = "8.14.1",      # of any release of Debian; without Debian's patches
        sha256 = "...",
        build_file = "//third_party:curl.BUILD",
    )

It comes from the server that this machine has its own packages from, and apt is not asked to know that release.
"""

load(":source_archive.bzl", "ARCHIVE_ATTRS", "keep_archive", "kept_archive", "offline_hint", "unpack_archive")

_HELPER = "/usr/lib/apt/apt-helper"

def _site(ctx, name):
    filters = ["Created-By: Packages", "Origin: Debian", "Label: Debian", "Component: main"]
    result = ctx.execute(["apt-get", "indextargets", "--format", "$(SITE)"] + filters)
    sites = result.stdout.split("\n")
    if result.return_code != 0 or not sites[0]:
        fail("\napt knows no server of Debian to download %s from: apt-get update\n%s%s" %
             (name, result.stderr, offline_hint(ctx)))
    return sites[0]

def _download(ctx):
    name = "%s_%s.orig.tar.%s" % (ctx.attr.package, ctx.attr.version, ctx.attr.compression)
    ctx.report_progress("downloading %s with apt" % name)
    if not ctx.path(_HELPER).exists:
        fail("\nThere is no %s to download %s with: this is no Debian.\n%s" % (_HELPER, name, offline_hint(ctx)))
    prefix = ctx.attr.package[:4] if ctx.attr.package.startswith("lib") else ctx.attr.package[0]
    url = "%s/pool/main/%s/%s/%s" % (_site(ctx, name), prefix, ctx.attr.package, name)
    ctx.file("download/empty", "", executable = False)
    archive = str(ctx.path("download/" + name))
    result = ctx.execute([_HELPER, "download-file", url, archive, "SHA256:" + ctx.attr.sha256], timeout = 1800)
    if result.return_code != 0:
        fail("\napt cannot download %s:\n%s%s\n%s" % (name, result.stdout, result.stderr, offline_hint(ctx)))
    keep_archive(ctx, archive, name)
    return archive

def _debian_source_impl(ctx):
    unpack_archive(ctx, kept_archive(ctx) or _download(ctx))

debian_source = repository_rule(
    implementation = _debian_source_impl,
    attrs = dict(ARCHIVE_ATTRS, package = attr.string(mandatory = True), compression = attr.string(default = "gz")),
)
