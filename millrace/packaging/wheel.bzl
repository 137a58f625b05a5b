"""The wheel of the Python package."""

def wheel(name, out, package, files, **kwargs):
    """Builds a wheel with auditwheel.

    Args:
      name: of the target.
      out: the wheel's file name, which says on what it runs.
      package: a target with the sources of the package `millrace`.
      files: targets of one file each, to their places in the wheel; README.md and LICENSE are told by their names.
      **kwargs: visibility and the like.
    """
    native.genrule(
        name = name,
        srcs = files.keys() + [package],
        outs = [out],
        cmd = " ".join(
            ["$(location :build_wheel) $@", "--package $(locations %s)" % package, "--files"] +
            ["$(location %s)=%s" % pair for pair in files.items()],
        ),
        tools = [":build_wheel"],
        **kwargs
    )
