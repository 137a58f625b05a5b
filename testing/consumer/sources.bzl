"""The files of this repository that targets are built from, and what they depend on."""

_Sources = provider(fields = ["files"])

def _targets(value):
    """The targets in the value of an attribute, whatever its type."""
    if type(value) == "dict":
        value = value.keys() + value.values()
    return [item for item in (value if type(value) == "list" else [value]) if type(item) == "Target"]

def _collect_impl(target, ctx):
    direct = []
    for name in dir(ctx.rule.files):
        files = getattr(ctx.rule.files, name)
        if type(files) == "list":  # the others are methods of every struct
            direct += [file for file in files if file.is_source and file.owner.workspace_name == ""]
    needed = []
    for name in dir(ctx.rule.attr):
        needed += [
            dependency[_Sources].files
            for dependency in _targets(getattr(ctx.rule.attr, name))
            if _Sources in dependency
        ]
    return [_Sources(files = depset(direct, transitive = needed))]

_collect = aspect(implementation = _collect_impl, attr_aspects = ["*"])

def _sources_impl(ctx):
    return [DefaultInfo(files = depset(transitive = [dep[_Sources].files for dep in ctx.attr.deps]))]

sources = rule(
    implementation = _sources_impl,
    attrs = {"deps": attr.label_list(aspects = [_collect], mandatory = True)},
)
