"""What libmillrace-node.so and libmillrace-cluster.so show: the names in *.symbols, and no other.

Functions and data of their own; what the compiler makes anew in each program that needs it (inline functions,
templates, vtables) depends on its flags and is not listed. Every function that their headers declare is among them,
and nothing that they do not declare is shown. To accept a change: run this file with --write.
"""

import os
import re
import subprocess
import sys
import unittest

import declarations

ROOT = os.path.join(os.environ.get("TEST_SRCDIR") or os.environ["RUNFILES_DIR"], "millrace")
FOLDER = os.path.join(ROOT, "millrace", "packaging")
# What the users of a library include, of the headers in public_headers.txt.
INCLUDED = {
    "node": ["millrace/batch.h", "millrace/node.h"],
    "cluster": ["millrace/batch.h", "millrace/client.h", "millrace/cluster.h", "millrace/resolver.h",
                "millrace/source.h", "millrace/tf_record.h"],
}
# Those of the C libraries, and one of macros alone.
OTHERS = ["millrace/c/cluster.h", "millrace/c/millrace.h", "millrace/status_macros.h"]


def library(name):
    return os.path.join(FOLDER, f"libmillrace-{name}.so")


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def shown(name):
    """Kind and name of each symbol; without parameters but where the name is an operator of no class."""
    for line in output("nm", "-DC", "--defined-only", library(name)).splitlines():
        kind, text = line.split(" ", 2)[1:]
        if not text.startswith(("typeinfo", "vtable")):
            text = text.replace("[abi:cxx11]", "")
            yield kind, text if text.startswith("millrace::operator") else re.sub(r"(?<!operator)\(.*", "", text)


def symbols(name):
    """Those of the library's own, each once, in order."""
    return sorted({text for kind, text in shown(name) if kind in "TDBR"})


def headers(name):
    """The texts of all headers of a library."""
    texts, waiting = {}, list(INCLUDED[name])
    while waiting:
        header = waiting.pop()
        if header not in texts:
            with open(os.path.join(ROOT, header), encoding="utf-8") as file:
                texts[header] = file.read()
            waiting += re.findall(r'(?m)^#include "(millrace/.+)"$', texts[header])
    return texts.values()


def declared(name, private=False):
    """The functions that the headers of a library declare, those of millrace::internal aside: no program calls them."""
    found = set().union(*(declarations.functions(text, private) for text in headers(name)))
    return {function for function in found if "::internal::" not in function}


def scope_of(symbol):
    """The class or the namespace that it is a member of; before a function template nm writes what it returns."""
    symbol = re.sub(r"::operator.*", "::operator", symbol)
    while re.search(r"<[^<>]*>", symbol):
        symbol = re.sub(r"<[^<>]*>", "", symbol)
    return symbol.rpartition(" ")[2].rpartition("::")[0]


def listed(name):
    with open(os.path.join(FOLDER, name + ".symbols"), encoding="utf-8") as file:
        return file.read().splitlines()


class SymbolsTest(unittest.TestCase):
    def test_the_node_library_shows_its_public_face(self):
        self.check("node")

    def test_the_cluster_library_shows_its_public_face(self):
        self.check("cluster")

    def check(self, name):
        have, want = symbols(name), listed(name)
        self.assertEqual(have, want, f"to accept it: {' '.join(sys.argv)} --write")
        for symbol in output("nm", "-DC", "--defined-only", library(name)).splitlines():
            self.assertIn("millrace::", symbol)

    def test_they_have_every_function_that_their_headers_declare(self):
        for name in INCLUDED:
            with self.subTest(library=name):
                self.assertEqual(sorted(declared(name).difference(symbols(name))), [])

    def test_they_show_nothing_else(self):
        for name in INCLUDED:
            with self.subTest(library=name):
                self.assertEqual(sorted(set(symbols(name)).difference(declared(name, private=True))), [])

    def test_what_compilers_make_anew_is_of_classes_that_their_headers_define(self):
        for name in INCLUDED:
            with self.subTest(library=name):
                known = set().union({"millrace"}, *(declarations.classes(text) for text in headers(name)))
                scopes = {scope_of(symbol) for _, symbol in shown(name)}
                found = {scope for scope in scopes if scope.startswith("millrace") and scope not in known}
                self.assertEqual(sorted(found), [], "a class that others do not see is [[gnu::visibility(\"hidden\")]]")

    def test_scopes_are_found(self):
        self.assertEqual(scope_of("millrace::Column::values"), "millrace::Column")
        self.assertEqual(scope_of("millrace::ListColumn<std::vector<int> >::operator->"), "millrace::ListColumn")
        self.assertEqual(scope_of("millrace::Cluster::Impl::~Impl"), "millrace::Cluster::Impl")
        self.assertEqual(scope_of("millrace::TfConfig"), "millrace")
        self.assertEqual(scope_of("millrace::Type const& std::forward<millrace::Type const&>"), "std")

    def test_every_public_header_belongs_to_a_library(self):
        with open(os.path.join(FOLDER, "public_headers.txt"), encoding="utf-8") as file:
            self.assertEqual(sorted(set(sum(INCLUDED.values(), OTHERS))), sorted(file.read().split()))

    def test_declarations_are_found(self):
        text = """
            #define MACRO(x) f(x);
            namespace millrace {
            enum class Kind { kOne, kTwo };
            int Free(absl::string_view text, const Options& options = {});  // Not();
            [[nodiscard]] absl::StatusOr<std::function<void(int)>> Templates();
            inline int Inline() { if (true) { Call(); } return 1; }
            template <typename T>
            T Template();
            class Class : public Base {
             public:
              explicit Class(int x) : x_(x) {}
              ~Class() override;
              Class(const Class&) = delete;
              Class& operator=(Class&&) noexcept;
              virtual void Pure() = 0;
              int operator[](size_t row) const;
              friend bool operator==(const Class& a, const Class& b);
              struct Options {
                absl::Duration wait = absl::Seconds(5);
                std::function<void(const std::function<void()>& taken)> on_operator;
                bool empty() const;
              };
             protected:
              int x(char c = '{');
             private:
              struct Hidden;
              void Private();
            };
            }"""
        self.assertEqual(
            declarations.functions(text),
            {
                "millrace::Free",
                "millrace::Templates",
                "millrace::Class::~Class",
                "millrace::Class::operator=",
                "millrace::Class::operator[]",
                "millrace::operator==(millrace::Class const&, millrace::Class const&)",
                "millrace::Class::Options::empty",
                "millrace::Class::x",
            },
        )
        self.assertEqual(
            declarations.functions(text, private=True) - declarations.functions(text), {"millrace::Class::Private"}
        )
        self.assertEqual(declarations.classes(text), {"millrace::Class", "millrace::Class::Options"})

    def test_their_names_in_the_linker_have_a_version(self):
        with open(os.path.join(FOLDER, "version.txt"), encoding="ascii") as file:
            interface = file.read().rpartition(".")[0]
        for name in ("node", "cluster"):
            dynamic = output("readelf", "-d", library(name))
            self.assertIn(f"Library soname: [libmillrace-{name}.so.{interface}]", dynamic)

    def test_the_node_library_brings_neither_grpc_nor_protobuf(self):
        needed = output("readelf", "-d", library("node"))
        self.assertNotRegex(needed, "NEEDED.*(grpc|protobuf)")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        for library_name in ("node", "cluster"):
            path = os.path.realpath(os.path.join(FOLDER, library_name + ".symbols"))
            with open(path, "w", encoding="utf-8") as out:
                out.write("".join(symbol + "\n" for symbol in symbols(library_name)))
    else:
        unittest.main()
