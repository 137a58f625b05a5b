"""Libraries of the system as Bazel repositories.

A `system_library` repository is probed with pkg-config. It holds symlinks to the headers and tools
of the library, so that Bazel sees them as inputs, `flags.bzl` with `LINKOPTS`, and a `versions.txt`
that every link depends on, so that an upgrade relinks what uses the library. Its targets carry the
names the upstream project uses; they are declared in `third_party/<library>.BUILD`.

A library with `archives` becomes part of the programs that use it, which then run where it is not installed;
`with_shared_libraries` of system_link.bzl undoes that.
"""

def _run(ctx, arguments, hint):
    result = ctx.execute(arguments)
    if result.return_code != 0:
        fail("\n%s failed: %s\n%s\n" % (" ".join(arguments), result.stderr.strip(), hint))
    return result.stdout.strip()

def _numbers(version):
    return [int(part) for part in version.replace("-", ".").split(".") if part.isdigit()]

def _in_multiarch_folder(ctx, header):
    """Debian keeps headers that differ between architectures in /usr/include/x86_64-linux-gnu and its like."""
    gcc = ctx.which("gcc")
    folder = ctx.execute([gcc, "-print-multiarch"]).stdout.strip() if gcc else ""
    return ctx.path("%s/%s/%s" % (ctx.attr.include_dir, folder, header)) if folder else None

def _archived(ctx, flag, folder):
    """`flag`, -lNAME, or the same for the archive if that is wanted and there is one."""
    name = flag[len("-l"):]
    if [prefix for prefix in ctx.attr.archives if name.startswith(prefix)]:
        if ctx.path("%s/lib%s.a" % (folder, name)).exists:
            return "-l:lib%s.a" % name
    return flag

def _link_options(ctx, pkg_config, modules):
    """The linker flags of the modules, each library once.

    The libraries are one group, so that their order does not matter to static archives, and shared
    ones are recorded only where they are needed."""
    command = [pkg_config] + (["--static"] if ctx.attr.static else []) + ["--libs"] + modules
    libraries = []
    options = []
    for flag in _run(ctx, command, "").split(" ") if modules else []:
        if flag.startswith("-l"):
            if flag not in libraries:
                libraries.append(flag)
        elif flag == "-pthread" or flag.startswith("-L"):
            if flag not in options:
                options.append(flag)
    libraries += [flag for flag in ctx.attr.extra_libraries if flag not in libraries]
    if ctx.attr.archives:
        folder = _run(ctx, [pkg_config, "--variable=libdir", modules[0]], "")
        libraries = [_archived(ctx, flag, folder) for flag in libraries]
    if not libraries:
        return options
    return options + ["-Wl,--push-state,--as-needed", "-Wl,--start-group"] + libraries + [
        "-Wl,--end-group",
        "-Wl,--pop-state",
    ]

_ALIAS = """
alias(
    name = "%s",
    actual = "%s",
)
"""

def _system_library_impl(ctx):
    hint = "Install the Debian package %s (./bazelw does it)." % ctx.attr.debian_package
    pkg_config = ctx.which("pkg-config")
    if not pkg_config:
        fail("\npkg-config is not installed. Install the Debian package pkg-config.\n")
    pkg_config = str(pkg_config)

    versions = []
    for module, minimum in ctx.attr.modules.items():
        version = _run(ctx, [pkg_config, "--modversion", module], hint)
        if minimum and _numbers(version) < _numbers(minimum):
            fail("\n%s %s is too old: Millrace needs %s or later. %s\n" %
                 (module, version, minimum, hint))
        versions.append("%s %s" % (module, version))
    dpkg_query = ctx.which("dpkg-query")
    if dpkg_query:
        result = ctx.execute([dpkg_query, "-W", ctx.attr.debian_package])
        if result.return_code == 0:
            versions.append(result.stdout.strip())
    ctx.file("versions.txt", "\n".join(versions) + "\n", executable = False)

    modules = ctx.attr.modules.keys()
    for header in ctx.attr.headers:
        source = ctx.path("%s/%s" % (ctx.attr.include_dir, header))
        if not source.exists:
            source = _in_multiarch_folder(ctx, header) or source
        if not source.exists:
            fail("\n%s does not exist. %s\n" % (source, hint))
        ctx.symlink(source, "%s/%s" % (ctx.attr.header_prefix, header) if ctx.attr.header_prefix else header)
    for tool in ctx.attr.tools:
        path = ctx.which(tool)
        if not path:
            fail("\nThe program %s is not installed. %s\n" % (
                tool,
                "Install the Debian package %s (./bazelw does it)." % ctx.attr.tools_package,
            ))
        ctx.symlink(path, "bin/" + tool)

    ctx.file("flags.bzl", "LINKOPTS = %s\n" % repr(_link_options(ctx, pkg_config, modules)), executable = False)
    ctx.symlink(ctx.attr.build_file, "BUILD")
    for package, targets in ctx.attr.packages.items():
        ctx.file(package + "/BUILD", "".join(
            ["package(default_visibility = [\"//visibility:public\"])\n"] +
            [_ALIAS % (target, ctx.attr.packages_actual) for target in targets],
        ), executable = False)

system_library = repository_rule(
    implementation = _system_library_impl,
    local = True,
    environ = ["MILLRACE_SYSTEM_PACKAGES", "PKG_CONFIG_PATH"],
    attrs = {
        "modules": attr.string_dict(
            mandatory = True,
            doc = "pkg-config modules and the minimum version of each (empty: any). None: the library has " +
                  "no pkg-config file, and extra_libraries names it.",
        ),
        "debian_package": attr.string(mandatory = True),
        "tools_package": attr.string(doc = "The Debian package of `tools`."),
        "include_dir": attr.string(default = "/usr/include"),
        "headers": attr.string_list(doc = "Files and folders under include_dir."),
        "header_prefix": attr.string(default = "include"),
        "tools": attr.string_list(doc = "Programs, linked as bin/<name>."),
        "static": attr.bool(doc = "Also list what static archives need."),
        "archives": attr.string_list(
            doc = "Beginnings of the names of libraries that are linked from their archives, if they have any.",
        ),
        "extra_libraries": attr.string_list(doc = "-l flags that pkg-config leaves out."),
        "packages": attr.string_list_dict(
            doc = "Upstream packages and their targets, each an alias of packages_actual.",
        ),
        "packages_actual": attr.string(),
        "build_file": attr.label(mandatory = True, allow_single_file = True),
    },
)
