"""Builds a wheel of Python files alone: build_pure_wheel.py OUT --license FILE --readme FILE --package FILE...

OUT's name says what it is: millrace_tensorflowonspark-VERSION-py3-none-any.whl. It needs the wheel `millrace` of the
same version. Equal inputs make equal wheels.
"""

import argparse
import base64
import hashlib
import pathlib
import re
import zipfile

_TIME = (1980, 1, 1, 0, 0, 0)

_METADATA = """\
Metadata-Version: 2.1
Name: {name}
Version: {version}
Summary: TensorFlowOnSpark's modules, on clusters of Millrace
Requires-Python: >=3.9
Requires-Dist: millrace=={version}
License: Apache-2.0
License-File: LICENSE
Description-Content-Type: text/markdown

{readme}"""

_WHEEL = """\
Wheel-Version: 1.0
Generator: millrace
Root-Is-Purelib: true
Tag: py3-none-any
"""


def _description(readme):
    """README.md where its neighbours are not: of a link to one of them its text remains."""
    return re.sub(r"\[([^]]*)\]\((?!#|https?:)[^)]*\)", r"\1", readme)


def _pack(out, info, files):
    lines = []
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(place, data):
            entry = zipfile.ZipInfo(place, _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | 0o644) << 16
            archive.writestr(entry, data)

        for place, data in sorted(files.items()):
            add(place, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{place},sha256={digest},{len(data)}")
        lines.append(f"{info}/RECORD,,")
        add(f"{info}/RECORD", ("\n".join(lines) + "\n").encode())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--license", type=pathlib.Path, required=True)
    parser.add_argument("--readme", type=pathlib.Path, required=True)
    parser.add_argument("--package", type=pathlib.Path, nargs="+", required=True)
    arguments = parser.parse_args()
    name, version = re.fullmatch(r"(\w+)-([\d.]+)-py3-none-any\.whl", arguments.out.name).groups()
    info = f"{name}-{version}.dist-info"
    readme = _description(arguments.readme.read_text(encoding="utf-8"))
    metadata = _METADATA.format(name=name.replace("_", "-"), version=version, readme=readme)
    files = {f"{file.parent.name}/{file.name}": file.read_bytes() for file in arguments.package}
    files[f"{info}/METADATA"] = metadata.encode()
    files[f"{info}/WHEEL"] = _WHEEL.encode()
    files[f"{info}/licenses/LICENSE"] = arguments.license.read_bytes()
    _pack(arguments.out, info, files)


if __name__ == "__main__":
    main()
