"""Makes manual pages of what programs say of themselves: man_pages.py OUT --changelog FILE --programs PROGRAM...

OUT is a folder, which gets a page of section 1 for each program, and for millrace one for each command too. A program
that has commands lists them with `completion commands`, and prints the text of each with `help COMMAND`; others have
`--help` alone. What a text says by its layout becomes the page's: a line above indented ones is a heading, a line
that begins with an option or a word introduces it, and other indented lines stay as they are. The date of a page is
that of the version in the changelog, so that equal texts make equal pages.
"""

import argparse
import pathlib
import re
import subprocess
import sys

_DESCRIPTION_INDENT = 16  # options and words are indented by less, what is said of them by more
_DOCUMENTATION = "The pages of the project's docs folder, which packages have in /usr/share/doc/millrace."


def _said_by(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout


def _indent(line):
    return len(line) - len(line.lstrip())


def _escaped(text):
    """As roff has it, wherever it stands in a line."""
    text = text.replace("\\", "\\e")
    text = re.sub(r"(?<![\w-])-|(?<=-)-", r"\\-", text)
    return re.sub(r"^([.'])", r"\\&\1", text)


def _introduced(words):
    """"-n, --lines N" with its options bold and their arguments in italics; words that are no options bold."""
    parts = []
    for word in words.split():
        comma = "," if word.endswith(",") else ""
        font = "B" if word.startswith("-") or not words.startswith("-") else "I"
        parts.append(f"\\f{font}{_escaped(word.removesuffix(','))}\\fR{comma}")
    return " ".join(parts)


def _columns(line):
    words, _, said = line.strip().partition("  ")
    return words, said.strip()


class _Page:
    """The roff of a text."""

    def __init__(self, text):
        self._lines = []
        self._open = None  # "example" or "item": what the lines before are
        for block in re.split(r"\n\s*\n", text.strip("\n")):
            self._add_block(block.split("\n"))
            self._close()

    def roff(self):
        """Without paragraphs that begin where a heading begins one."""
        lines = [line for above, line in zip(["", *self._lines], self._lines)
                 if line != ".PP" or not above.startswith(".SS")]  # fmt: skip
        return "\n".join(lines) + "\n"

    def _close(self):
        if self._open == "example":
            self._lines += [".EE", ".RE"]
        self._open = None

    def _add_block(self, lines):
        # Tables of several columns, and JSON, stay as they are.
        as_it_is = any('{"' in line or len(re.findall(r"\S {2,}\S", line)) > 1 for line in lines)
        for number, line in enumerate(lines):
            below = lines[number + 1] if number + 1 < len(lines) else ""
            if _indent(line) == 0:
                above = lines[number - 1] if number > 0 else " "
                first = _indent(above) > 0  # of a paragraph
                self._add_text(line, first, heading=first and _indent(below) > 0)
            elif as_it_is or not self._add_item(line):
                self._add_example(line)

    def _add_text(self, line, first, heading):
        self._close()
        if heading:
            self._lines += [f".SS {_escaped(line.rstrip(':'))}"]
        else:
            self._lines += [".PP"] * first + [_escaped(line)]

    def _add_item(self, line):
        words, said = _columns(line)
        if self._open == "item" and _indent(line) >= min(_DESCRIPTION_INDENT, self._item_indent + 6):
            self._lines += [_escaped(line.strip())]
        elif words.startswith("-") or said:
            self._close()
            self._lines += [".TP", _introduced(words)] + [_escaped(said)] * bool(said)
            self._open, self._item_indent = "item", _indent(line)
        else:
            return False
        return True

    def _add_example(self, line):
        if self._open != "example":
            self._close()
            self._lines += [".PP", ".RS 4", ".EX"]
            self._open = "example"
        self._lines.append(_escaped(line[2:]))


def page(name, summary, text, version, date, others):
    """The manual page of a program or a command."""
    usage = re.match(r"usage: (.*)\n+", text)
    synopsis = usage[1] if usage else ""
    body = text[usage.end():] if usage else text.partition("\n")[2]
    lines = [
        f'.TH {_escaped(name.upper())} 1 "{date}" "Millrace {version}" "Millrace"',
        ".SH NAME",
        f"{_escaped(name)} \\- {_escaped(summary)}",
    ]
    if synopsis:
        lines += [".SH SYNOPSIS", _introduced(synopsis).replace("\\fB[", "\\fR[")]
    lines += [".SH DESCRIPTION"]
    description = _Page(body).roff()
    if description.startswith(".PP\n"):
        description = description[len(".PP\n"):]
    also = [f".BR {_escaped(other)} (1)," for other in others[:-1]] + [f".BR {_escaped(others[-1])} (1)"]
    return "\n".join(lines) + "\n" + description + "\n".join([".SH SEE ALSO", *also, ".PP", _DOCUMENTATION]) + "\n"


def _listed(text, word):
    """What a text says of a word that it lists."""
    found = re.search(rf"(?m)^  {re.escape(word)}(?: [A-Z\[\]]+)? {{2,}}(.*(?:\n {{8,}}[^\s-].*)*)", text)
    if found is None:
        sys.exit(f"man_pages: no text says in a line what {word} does")
    return " ".join(found[1].split())


def _first_words(text):
    """"Shows running clusters in a window: why ..." is "shows running clusters in a window"."""
    line = re.sub(r"^usage: .*\n+", "", text)
    name, colon, said = line.partition("\n")[0].partition(": ")
    words = said if colon and " " not in name else name
    words = re.split(r"[.:,;]", words)[0].removeprefix("millrace ")
    return words if words.startswith("Millrace") else words[0].lower() + words[1:]


def _pages_of(program):
    """(name, summary, text), for a program and its commands."""
    name = program.name
    main = _said_by(program, "--help")
    pages = [(name, _first_words(main), main)]
    if "completion" not in main:
        return pages
    seen = {main}
    for command in _said_by(program, "completion", "commands").splitlines():
        text = _said_by(program, "help", *command.split())
        if text in seen:
            continue  # "kv get" has the page of "kv", which comes before it
        seen.add(text)
        parent, _, word = command.rpartition(" ")
        above = _said_by(program, "help", *parent.split()) if parent else main
        pages.append((f"{name}-{command.replace(' ', '-')}", _listed(above, word), text))
    return pages


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--changelog", required=True, type=pathlib.Path)
    parser.add_argument("--programs", nargs="+", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    changelog = arguments.changelog.read_text(encoding="utf-8")
    version, date = re.search(r"(?m)^## \[([0-9.]+)\] - (\S+)$", changelog).groups()
    pages = [page for program in arguments.programs for page in _pages_of(program.absolute())]
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, summary, text in pages:
        others = [other for other, _, _ in pages if other != name]
        roff = page(name, summary, text, version, date, sorted(others))
        (arguments.out / f"{name}.1").write_text(roff, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
