"""Python programs and tests that run with the system's python3.

The native py_binary and py_test of Bazel 4 start a script with `#!/usr/bin/env python`, a name that
Debian does not have. These start bash, find their runfiles and run python3 with the folders of
`deps` (native py_library targets) as its only module path.
"""

_LAUNCHER = """\
#!/bin/bash
# Runs {main}; made by python_rules.bzl.
self="${{BASH_SOURCE[0]}}"
[[ "$self" == /* ]] || self="$PWD/$self"
if [[ -d "$self.runfiles" ]]; then
  root="$self.runfiles"
elif [[ "$self" == *.runfiles/* ]]; then
  root="${{self%%.runfiles/*}}.runfiles"
else
  root="${{RUNFILES_DIR:-${{TEST_SRCDIR:?the runfiles of $self are not found}}}}"
fi
path=""
for folder in {imports}; do
  path="$path${{path:+:}}$root/$folder"
done
# The interpreter that the packages were installed with, whatever the caller's PATH.
python="$(PATH=/bin:/usr/bin:/usr/local/bin command -v python3)" || {{
  echo "python3 is not installed" >&2
  exit 127
}}
PYTHONPATH="$path" exec "$python" -s -P -B "$root/{main}" "$@"
"""

def _python_program_impl(ctx):
    main = ctx.file.main
    workspace = ctx.workspace_name
    imports = depset(
        [workspace + "/" + ctx.label.package],
        transitive = [dep[PyInfo].imports for dep in ctx.attr.deps],
    )
    launcher = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.write(
        launcher,
        _LAUNCHER.format(
            main = workspace + "/" + main.short_path,
            imports = " ".join(["\"%s\"" % folder for folder in imports.to_list()]),
        ),
        is_executable = True,
    )
    runfiles = ctx.runfiles(files = [main] + ctx.files.data)
    for dep in ctx.attr.deps + ctx.attr.data:
        runfiles = runfiles.merge(dep[DefaultInfo].default_runfiles)
        runfiles = runfiles.merge(ctx.runfiles(transitive_files = dep[DefaultInfo].files))
    return [DefaultInfo(executable = launcher, files = depset([launcher]), runfiles = runfiles)]

_ATTRS = {
    "main": attr.label(mandatory = True, allow_single_file = [".py"]),
    "deps": attr.label_list(providers = [PyInfo]),
    "data": attr.label_list(allow_files = True),
}

python_binary = rule(implementation = _python_program_impl, attrs = _ATTRS, executable = True)

python_test = rule(implementation = _python_program_impl, attrs = _ATTRS, test = True)
