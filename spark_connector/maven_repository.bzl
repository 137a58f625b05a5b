"""A folder that is a Maven repository with one artifact: its jar, its sources, its documentation and its pom."""

load("//third_party/bazel:java_rules.bzl", "JarInfo")

def _maven_repository_impl(ctx):
    folder = ctx.actions.declare_directory(ctx.label.name)
    classpath = depset(transitive = [dep[JarInfo].compile for dep in ctx.attr.deps])
    args = ctx.actions.args()
    args.use_param_file("@%s", use_always = True)
    args.set_param_file_format("multiline")
    args.add("--out=" + folder.path)
    args.add("--version=" + ctx.attr.version)
    args.add("--pom=" + ctx.file.pom.path)
    args.add("--jar=" + ctx.file.jar.path)
    args.add("--licence=" + ctx.file.licence.path)
    args.add_joined(classpath, join_with = ":", format_joined = "--classpath=%s")
    args.add_all(ctx.files.srcs, format_each = "--source=%s")
    args.add_all(ctx.files.api, format_each = "--api=%s")
    ctx.actions.run(
        executable = "/usr/bin/env",
        arguments = ["python3", ctx.file._tool.path, args],
        inputs = depset(
            ctx.files.srcs + ctx.files.api + [ctx.file.pom, ctx.file.jar, ctx.file.licence, ctx.file._tool],
            transitive = [classpath],
        ),
        outputs = [folder],
        mnemonic = "MavenRepository",
        progress_message = "Making the Maven repository %s" % ctx.label,
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([folder]), runfiles = ctx.runfiles(files = [folder]))]

maven_repository = rule(
    implementation = _maven_repository_impl,
    attrs = {
        "version": attr.string(mandatory = True),
        "pom": attr.label(mandatory = True, allow_single_file = True, doc = "It says the same version."),
        "jar": attr.label(mandatory = True, allow_single_file = [".jar"]),
        "licence": attr.label(mandatory = True, allow_single_file = True),
        "srcs": attr.label_list(mandatory = True, allow_files = [".java"], doc = "All sources."),
        "api": attr.label_list(mandatory = True, allow_files = [".java"], doc = "Those that are documented."),
        "deps": attr.label_list(providers = [JarInfo], doc = "What the documented sources name."),
        "_tool": attr.label(default = "//spark_connector:maven_repository.py", allow_single_file = True),
    },
)
