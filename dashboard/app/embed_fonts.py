"""Writes font files into a C++ source: embed_fonts.py OUT.cc NAME=FILE..."""

import sys


def literal(data):
    """String literals of 4,096 bytes a line; octal escapes, which end after three digits."""
    for start in range(0, len(data), 4096):
        yield '"' + "".join("\\%03o" % byte for byte in data[start : start + 4096]) + '"'


def main(out, pairs):
    with open(out, "w", encoding="ascii") as source:
        source.write('#include "dashboard/app/font_data.h"\n\nnamespace millrace::dashboard {\n\n')
        for pair in pairs:
            name, path = pair.split("=", 1)
            with open(path, "rb") as font:
                data = font.read()
            source.write("const absl::string_view %s(\n" % name)
            source.write("\n".join(literal(data)))
            source.write(",\n%d);\n\n" % len(data))
        source.write("}  // namespace millrace::dashboard\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
