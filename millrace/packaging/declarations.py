"""The functions that the headers of a library declare and that its sources define, and the classes that they define.

    >>> functions("namespace millrace { class A { public: void F(int x); int g() { return 1; } }; }")
    {'millrace::A::F'}
    >>> classes("namespace millrace { class A { public: struct B {}; class C; }; }")
    {'millrace::A', 'millrace::A::B'}

It reads this repository's style of headers, not all of C++: no macros that declare, no functions that return pointers
to functions, and operators outside classes take const references only.
"""

import re

# Comments, directives, and literals.
_NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'',
    re.DOTALL | re.MULTILINE)
_ATTRIBUTE = re.compile(r"\[\[.*?\]\]|\bABSL_\w+(?:\([^()]*\))?|\balignas\([^()]*\)|\bnoexcept\b")
_NAME = re.compile(r"(operator(?:\(\)|[^\s\w(]+|\w+)|~?\b[A-Za-z_]\w*)\s*\(([^()]*)")
_ACCESS = re.compile(r"^(?:\s*(?:public|protected|private)\s*:(?!:))+")


def functions(text, private=False):
    """Their names with namespaces and classes, and an operator of no class with what it takes, as nm -C writes it;
    those that only a class itself may call if `private` says so."""
    return {name for name, is_class, is_private in _names(text) if not is_class and (private or not is_private)}


def classes(text):
    """The names of those that have a body, with namespaces and classes."""
    return {name for name, is_class, _ in _names(text) if is_class}


def _names(text):
    """(name, whether it is that of a class, whether it is private) of all."""
    found = set()
    scopes = []  # [what nm writes before names in it, whether it is a class, whether its members are for others]
    statement, parentheses, skipped = "", 0, 0
    for character in _NOISE.sub("", text):
        if skipped:
            skipped += {"{": 1, "}": -1}.get(character, 0)
            if not skipped and not _initialized(statement):
                statement = ""  # the body of a function
        elif character in "()" or parentheses:
            parentheses += {"(": 1, ")": -1}.get(character, 0)
            statement += character
        elif character == "{":
            statement = _access(statement, scopes)
            opened = re.match(r"\s*(?:inline\s+)?(namespace|class|struct)\b(?:\s+\[\[.*?\]\])?\s*(\w*)", statement)
            if opened and "(" not in statement and "=" not in statement:
                kind, name = opened.groups()
                scopes.append([(scopes[-1][0] if scopes else "") + name + "::", kind != "namespace",
                               kind != "class" and (not scopes or scopes[-1][2])])
                if kind != "namespace":
                    found.add((scopes[-1][0][:-2], True, False))
                statement = ""
            else:
                skipped = 1
        elif character == "}":
            scopes.pop()
            statement = ""
        elif character == ";":
            statement = _access(statement, scopes)
            if scopes:
                scope, in_class, for_others = scopes[-1]
                found.update((name, False, not for_others) for name in _declared(statement, scope, in_class))
            statement = ""
        else:
            statement += character
    return found


def _initialized(statement):
    """Whether braces after it are those of a value or an enumeration, which a semicolon ends."""
    return "(" not in statement or re.search(r"=\s*$", statement) is not None


def _access(statement, scopes):
    """The statement without public: and the like, which `scopes` is told."""
    given = _ACCESS.match(statement)
    if given:
        scopes[-1][2] = "private" not in given.group().split(":")[-2]
        statement = statement[given.end():]
    return statement


def _declared(statement, scope, in_class):
    statement = _ATTRIBUTE.sub("", statement).strip()
    if re.match(r"(template|using|typedef|static_assert|inline|constexpr)\b", statement):
        return
    if re.search(r"\)[^()]*=\s*(0|default|delete)$", statement):
        return
    length = None
    while not re.search(r"\boperator\b", statement) and length != len(statement):
        length = len(statement)
        statement = re.sub(r"<[^<>]*>", "", statement)  # arguments of templates
    function = _NAME.search(statement)
    if not function or "=" in statement[:function.start()]:
        return
    name, parameters = function.groups()
    if in_class and not statement.startswith("friend "):
        yield scope + name
        return
    namespace = re.sub(r"(?<=::)[A-Z].*", "", scope)  # a friend is no member
    if name.startswith("operator"):
        taken = [f"{namespace}{name} const&" for name in re.findall(r"const (\w+)&", parameters)]
        name += f"({', '.join(taken)})"
    yield namespace + name
