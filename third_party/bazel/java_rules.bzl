"""Java with the JDK's javac: libraries, jars with resources, JUnit tests.

The built-in java_library needs tools that Bazel 4 downloads; these rules need javac and python3
alone. Class files are Java 8's (`release`), warnings are errors, and a jar's bytes depend on its
content only. `maven_jar` (maven_jar.bzl) brings jars of others.
"""

JarInfo = provider(
    doc = "Jars of a Java target.",
    fields = {
        "compile": "depset: its own jar and those of `exports`, for who compiles against it.",
        "runtime": "depset in preorder, so that classes of a jar come before its deps': all that a program\n" +
                   "with it needs, except `provided`.",
    },
)

_TOOL = attr.label(
    default = "//third_party/bazel:java_build.py",
    allow_single_file = True,
)

def _paths(jars):
    return ":".join([jar.path for jar in jars])

def _compile(ctx, output, deps):
    """Compiles ctx.files.srcs into the jar `output`."""
    classpath = depset(transitive = [dep[JarInfo].compile for dep in deps])
    sources = ctx.actions.args()
    sources.use_param_file("@%s", use_always = True)
    sources.set_param_file_format("multiline")
    sources.add_all(ctx.files.srcs)
    ctx.actions.run(
        executable = "/usr/bin/env",
        arguments = [
            "python3",
            ctx.file._tool.path,
            "compile",
            "--output=" + output.path,
            "--release=" + ctx.attr.release,
            "--classpath=" + _paths(classpath.to_list()),
        ] + ([] if ctx.attr.lint else ["--no-lint"]) + [sources],
        inputs = depset(ctx.files.srcs + [ctx.file._tool], transitive = [classpath]),
        outputs = [output],
        mnemonic = "Javac",
        progress_message = "Compiling %d Java files of %s" % (len(ctx.files.srcs), ctx.label),
        use_default_shell_env = True,
    )

def _java_library_impl(ctx):
    jar = ctx.actions.declare_file("lib%s.jar" % ctx.label.name)
    _compile(ctx, jar, ctx.attr.deps + ctx.attr.exports + ctx.attr.provided)
    runtime = [dep[JarInfo].runtime for dep in ctx.attr.deps + ctx.attr.exports]
    return [
        DefaultInfo(files = depset([jar])),
        JarInfo(
            compile = depset([jar], transitive = [dep[JarInfo].compile for dep in ctx.attr.exports]),
            runtime = depset([jar], transitive = runtime, order = "preorder"),
        ),
    ]

_COMPILE_ATTRS = {
    "srcs": attr.label_list(allow_files = [".java"], mandatory = True),
    "deps": attr.label_list(providers = [JarInfo]),
    "release": attr.string(default = "8", doc = "Of Java; of the language, the library and the class files."),
    "lint": attr.bool(default = True, doc = "False for code of others."),
    "_tool": _TOOL,
}

java_library = rule(
    implementation = _java_library_impl,
    attrs = dict(
        _COMPILE_ATTRS,
        exports = attr.label_list(providers = [JarInfo], doc = "deps that its users compile against too."),
        provided = attr.label_list(providers = [JarInfo], doc = "deps that whoever runs it brings."),
    ),
)

def _java_import_impl(ctx):
    jars = depset(ctx.files.jars, transitive = [dep[JarInfo].runtime for dep in ctx.attr.deps], order = "preorder")
    return [
        DefaultInfo(files = depset(ctx.files.jars)),
        JarInfo(compile = depset(ctx.files.jars), runtime = jars),
    ]

java_import = rule(
    implementation = _java_import_impl,
    attrs = {
        "jars": attr.label_list(allow_files = [".jar"], mandatory = True),
        "deps": attr.label_list(providers = [JarInfo]),
    },
)

def _java_jar_impl(ctx):
    jars = depset(transitive = [dep[JarInfo].runtime for dep in ctx.attr.deps], order = "preorder")
    args = ctx.actions.args()
    args.add("--output=" + ctx.outputs.jar.path)
    args.add_all(jars, format_each = "--jar=%s")
    inputs = [ctx.file._tool]
    for target, name in ctx.attr.resources.items():
        files = target.files.to_list()
        if len(files) != 1:
            fail("%s: a resource is one file" % target.label)
        args.add("--file=%s=%s" % (name, files[0].path))
        inputs += files
    if ctx.attr.main_class:
        args.add("--main=" + ctx.attr.main_class)
    ctx.actions.run(
        executable = "/usr/bin/env",
        arguments = ["python3", ctx.file._tool.path, "merge", args],
        inputs = depset(inputs, transitive = [jars]),
        outputs = [ctx.outputs.jar],
        mnemonic = "Jar",
        progress_message = "Packing %s" % ctx.outputs.jar.short_path,
        use_default_shell_env = True,
    )
    return [
        DefaultInfo(files = depset([ctx.outputs.jar])),
        JarInfo(compile = depset([ctx.outputs.jar]), runtime = depset([ctx.outputs.jar], order = "preorder")),
    ]

java_jar = rule(
    implementation = _java_jar_impl,
    doc = "One jar with everything that `deps` need at run time.",
    attrs = {
        "jar": attr.output(mandatory = True),
        "deps": attr.label_list(providers = [JarInfo], mandatory = True),
        "resources": attr.label_keyed_string_dict(
            allow_files = True,
            doc = "Files to add: target to name in the jar; each with its digest, NAME.sha256.",
        ),
        "main_class": attr.string(),
        "_tool": _TOOL,
    },
)

_LAUNCHER = """\
#!/bin/bash
# Runs {main}; made by java_rules.bzl.
self="${{BASH_SOURCE[0]}}"
[[ "$self" == /* ]] || self="$PWD/$self"
if [[ -d "$self.runfiles" ]]; then
  root="$self.runfiles"
elif [[ "$self" == *.runfiles/* ]]; then
  root="${{self%%.runfiles/*}}.runfiles"
else
  root="${{RUNFILES_DIR:-${{TEST_SRCDIR:?the runfiles of $self are not found}}}}"
fi
java="$(PATH=/bin:/usr/bin:/usr/local/bin command -v java)" || {{
  echo "java is not installed" >&2
  exit 127
}}
cd "$root/{workspace}"
exec "$java" -Xmx512m -XX:+UseSerialGC {jvm_flags} -cp {classpath} {main} {args} "$@"
"""

def _runfile(ctx, file):
    return file.short_path[3:] if file.short_path.startswith("../") else ctx.workspace_name + "/" + file.short_path

def _java_program_impl(ctx):
    jars = []
    if ctx.files.srcs:
        jar = ctx.actions.declare_file("lib%s.jar" % ctx.label.name)
        _compile(ctx, jar, ctx.attr.deps)
        jars.append(jar)
    jars = depset(
        jars,
        transitive = [dep[JarInfo].runtime for dep in ctx.attr.deps + ctx.attr.runtime_deps],
        order = "preorder",
    )

    # Where a test finds its files: system properties that name runfiles.
    flags = ["-Djava.io.tmpdir=\"${TEST_TMPDIR:-/tmp}\""] if ctx.attr.is_test else []
    runfiles = ctx.runfiles(files = ctx.files.data + jars.to_list())
    for target, name in ctx.attr.properties.items():
        files = target.files.to_list()
        if len(files) != 1:
            fail("%s: a property names one file" % target.label)
        flags.append("-D%s=\"$root/%s\"" % (name, _runfile(ctx, files[0])))
        runfiles = runfiles.merge(ctx.runfiles(files = files)).merge(target[DefaultInfo].default_runfiles)
    for target in ctx.attr.data:
        runfiles = runfiles.merge(target[DefaultInfo].default_runfiles)
    launcher = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.write(
        launcher,
        _LAUNCHER.format(
            main = ctx.attr.main_class,
            workspace = ctx.workspace_name,
            jvm_flags = " ".join(flags + ctx.attr.jvm_flags),
            classpath = ":".join(["\"$root/%s\"" % _runfile(ctx, jar) for jar in jars.to_list()]),
            args = " ".join(ctx.attr.main_args),
        ),
        is_executable = True,
    )
    return [DefaultInfo(executable = launcher, files = depset([launcher]), runfiles = runfiles)]

_PROGRAM_ATTRS = dict(
    _COMPILE_ATTRS,
    srcs = attr.label_list(allow_files = [".java"]),
    runtime_deps = attr.label_list(providers = [JarInfo]),
    data = attr.label_list(allow_files = True),
    properties = attr.label_keyed_string_dict(
        allow_files = True,
        doc = "Files that the program finds by a system property: target to property.",
    ),
    main_class = attr.string(mandatory = True),
    main_args = attr.string_list(),
    jvm_flags = attr.string_list(),
)

java_binary = rule(
    implementation = _java_program_impl,
    attrs = dict(_PROGRAM_ATTRS, is_test = attr.bool(default = False)),
    executable = True,
)

_java_test = rule(
    implementation = _java_program_impl,
    attrs = dict(_PROGRAM_ATTRS, is_test = attr.bool(default = True)),
    test = True,
)

def java_test(name, classes, deps = [], jvm_flags = [], **kwargs):
    """A JUnit 4 test.

    Args:
      name: of the target.
      classes: names of the test classes, packages included.
      deps: what the sources compile against; JUnit is among it.
      jvm_flags: besides -ea and those of every program.
      **kwargs: as of java_binary, and of every test.
    """
    _java_test(
        name = name,
        deps = deps + ["@maven_junit_junit//:jar"],
        runtime_deps = [Label("//third_party/bazel:junit_runner")],
        main_class = "millrace.JUnitRunner",
        main_args = classes,
        jvm_flags = ["-ea"] + jvm_flags,
        **kwargs
    )
