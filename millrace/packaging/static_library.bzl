"""A library as an archive, for node programs that run where nothing of Millrace is installed.

    static_library(
        name = "static_node",
        archive = "libmillrace-node.a",
        deps = [":node"],
        shared_library = ":libmillrace-node.so",
    )

The archive has one member, in which only what the shared library shows is global: a libzmq of the program's own stays
beside the one in it. What else a program must link (Abseil, libsodium) is in <archive>.flags, for the linker, in
order.
"""

load(":toolchain.bzl", "TOOLCHAINS", "TOOLCHAIN_ATTRS", "toolchain_of")

def _static_library_impl(ctx):
    toolchain, features = toolchain_of(ctx)
    whole = []
    needed = []
    flags = []
    info = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps])
    for given in info.linking_context.linker_inputs.to_list():
        for library in given.libraries:
            archive = library.pic_static_library or library.static_library
            (whole if library.alwayslink else needed).append(archive)
        flags.extend(given.user_link_flags)

    archive = ctx.actions.declare_file(ctx.attr.archive)
    flags_file = ctx.actions.declare_file(ctx.attr.archive + ".flags")
    ctx.actions.write(flags_file, "".join([flag + "\n" for flag in flags]))
    ctx.actions.run_shell(
        command = """set -e
nm="$1"; objcopy="$2"; ar="$3"; shared="$4"; archive="$5"; shift 5
object="${archive%.a}.o"
"$nm" --dynamic --defined-only --format=posix "$shared" | cut -d' ' -f1 | sed 's/@.*//' > "$archive.symbols"
"$@" -o "$object.all"
# objcopy leaves GCC's unique symbols as they are, and makes weak ones local. It takes no empty list.
"$nm" --defined-only --format=posix "$object.all" | awk '$2 == "u" { print $1 }' > "$archive.unique"
test -s "$archive.unique" || echo "none" > "$archive.unique"
"$objcopy" --weaken-symbols="$archive.unique" "$object.all" "$object.weak"
"$objcopy" --keep-global-symbols="$archive.symbols" "$object.weak" "$object"
rm -f "$archive"
"$ar" rcsD "$archive" "$object"
rm "$object" "$object.all" "$object.weak" "$archive.symbols" "$archive.unique"
""",
        arguments = [
            toolchain.nm_executable,
            toolchain.objcopy_executable,
            toolchain.ar_executable,
            ctx.file.shared_library.path,
            archive.path,
            cc_common.get_tool_for_action(feature_configuration = features, action_name = "c++-link-executable"),
            "-r",
            "-nostdlib",
            "-fuse-ld=bfd",
            # Members of the program's own groups take the place of none here, whose symbols are no longer global.
            "-Wl,--force-group-allocation",
            "-Wl,--whole-archive",
        ] + [library.path for library in whole] + ["-Wl,--no-whole-archive", "-Wl,--start-group"] + [
            library.path
            for library in needed
        ] + ["-Wl,--end-group"],
        inputs = depset(whole + needed + [ctx.file.shared_library], transitive = [toolchain.all_files]),
        outputs = [archive],
        mnemonic = "CppStaticLibrary",
        use_default_shell_env = True,
        progress_message = "Making %s" % archive.short_path,
    )
    return [DefaultInfo(files = depset([archive, flags_file]), runfiles = ctx.runfiles([archive, flags_file]))]

static_library = rule(
    implementation = _static_library_impl,
    attrs = dict(
        TOOLCHAIN_ATTRS,
        archive = attr.string(mandatory = True),
        deps = attr.label_list(providers = [CcInfo], mandatory = True),
        shared_library = attr.label(allow_single_file = True, mandatory = True),
    ),
    fragments = ["cpp"],
    toolchains = TOOLCHAINS,
)
