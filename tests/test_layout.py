"""How the code is laid out: files and functions stay short, and imports run one way.

`docs/layout.md` says the same in words. The lists below name the exceptions; an exception that is no longer
needed is an error too.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.layout import (
    by_room,
    circles,
    long_files,
    long_functions,
    read_imports,
    room_in,
    sources,
    upward,
)

ROOT = Path(__file__).parent.parent
PACKAGES = ("equivalence", "hybrid", "adapters", "bench", "tools", "tests")

MOST_LINES, MOST_LINES_A_FUNCTION = 500, 120

PACKAGE_ORDER = ("equivalence, tools", "hybrid", "adapters", "bench", "tests")

EQUIVALENCE_ORDER = (
    "errors, source_check, context_values, weak_methods",
    "forks, store",
    "arguments, arrays, bounds, deadline, json_text, runs",
    "network, parser, trie",
    "walks",
    "vocabulary",
    "classes",
    "lark, __init__",
)

HYBRID_ORDER = (
    "values",
    "json_schema, xgrammar",
    "guard",
    "representatives",
    "classifier",
    "remembering",
    "lark",
    "completion, explain",
    "compiled",
    "files",
    "compile",
    "api",
    "device, healing, metrics",
    "drafts",
    "__init__",
    "testing",
    "pages",
    "cli",
    "__main__",
)

WHERE_CALLED = {("hybrid.compiled", "hybrid.files"): "a compiled grammar saves and loads itself"}
"""Imports of higher rooms, inside functions."""

BY_NAME = {("hybrid.cli.commands", "adapters.demo"): "the command `demo`"}
"""Imports of higher packages, by name at the place of use."""


@cache
def imports() -> dict[str, set[str]]:
    return read_imports(ROOT, PACKAGES)


def without(exceptions) -> dict[str, set[str]]:
    """The imports except for some pairs, each of which must exist."""
    assert not [pair for pair in exceptions if pair[1] not in imports().get(pair[0], ())]
    return {
        module: {other for other in imported if (module, other) not in exceptions}
        for module, imported in imports().items()
    }


def within(package: str, given: dict[str, set[str]]) -> dict[str, set[str]]:
    """The imports between the modules of a package."""
    inside = [module for module in given if f"{module}.".startswith(f"{package}.")]
    return {module: given[module] & set(inside) for module in inside}


# --- The project -----------------------------------------------------------------------------------------


def test_no_file_is_long():
    assert long_files(sources(ROOT, PACKAGES), MOST_LINES) == []


def test_no_function_is_long():
    assert long_functions(sources(ROOT, PACKAGES), MOST_LINES_A_FUNCTION) == []


def test_imports_between_packages_run_one_way():
    rooms = by_room(without(BY_NAME), lambda module: module.split(".")[0])
    assert upward(rooms, PACKAGE_ORDER) == []
    assert rooms["equivalence"] == rooms["tools"] == set()


def test_imports_form_no_circle():
    assert circles(without(WHERE_CALLED)) == []


def test_rooms_of_equivalence_have_an_order():
    rooms = by_room(within("equivalence", imports()), room_in("equivalence"))
    assert upward(rooms, EQUIVALENCE_ORDER) == []


def test_rooms_of_hybrid_have_an_order():
    rooms = by_room(within("hybrid", without(WHERE_CALLED)), room_in("hybrid"))
    assert upward(rooms, HYBRID_ORDER) == []


def test_rooms_within_a_room_form_no_circle():
    packages = {module.rpartition(".")[0] for module in imports()} - {"", "hybrid"}
    assert {"equivalence.lark", "equivalence.walks", "bench"} <= packages
    for package in sorted(packages):
        assert circles(by_room(within(package, imports()), room_in(package))) == [], package


def test_the_document_has_the_same_orders():
    text = (ROOT / "docs" / "layout.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?:^ {4}\S.*\n)+", text, re.MULTILINE)
    orders = [[set(line.split()) for line in reversed(block.splitlines())] for block in blocks]
    for order in (EQUIVALENCE_ORDER, HYBRID_ORDER):
        rooms = [set(step.split(", ")) - {"__init__", "__main__"} for step in order]
        assert [step for step in rooms if step] in orders


# --- The checkers, on trees made up --------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path):
    """A function that writes files by path, and returns the imports between them."""

    def write(**files: str) -> dict[str, set[str]]:
        for name, text in files.items():
            path, _, suffix = name.replace("__", "/").partition("_")
            file = tmp_path / f"{path}.{suffix or 'py'}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return read_imports(tmp_path, {path.name for path in tmp_path.iterdir()})

    return write


@pytest.mark.parametrize(
    "line",
    [
        "import p.b",
        "from p import b",
        "from p.b import name",
        "def f():\n    from p import b",
        "from cython.cimports.p.b import Name",
        "import importlib\nimportlib.import_module('p.b')",
        "if x:\n    pass\nelse:\n    from p import b",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p import b",
    ],
)
def test_an_import_is_seen(tree, line):
    found = tree(p__init="", p__a=line, p__b="from p.a import other")
    assert found["p.a"] == {"p.b"} and circles(found) == [["p.a", "p.b"]]


@pytest.mark.parametrize(
    "line",
    [
        "import numpy\nfrom os import path",
        "# from p import b",
        "",
    ],
)
def test_what_is_no_import_is_not_seen(tree, line):
    found = tree(p__init="", p__a=line, p__b="from p.a import other")
    assert found["p.a"] == set() and circles(found) == []


@pytest.mark.parametrize("line", ["from p.b cimport B, C", "cimport p.b", "from p cimport b"])
def test_a_declaration_is_part_of_its_module(tree, line):
    found = tree(p__a="", p__a_pxd=f"{line}\ncdef class A:\n    cdef B b\n", p__b="import p.a")
    assert found["p.a"] == {"p.b"} and circles(found) == [["p.a", "p.b"]]


def test_a_name_of_a_package_is_an_import_of_the_package(tree, tmp_path):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "__init__.py").write_text("from p.a import x\n")
    assert tree(p__a="", p__b="from p import x")["p.b"] == {"p"}


def test_a_relative_import_is_refused(tree):
    with pytest.raises(ValueError, match="relative"):
        tree(p__a="from . import b")


def test_a_long_circle_is_found_once(tree):
    found = tree(p__a="import p.b", p__b="import p.c", p__c="import p.a\nimport p.d", p__d="")
    assert circles(found) == [["p.a", "p.b", "p.c"]]


def test_rooms_may_form_a_circle_where_modules_do_not(tree):
    found = tree(p__one__a="import p.two.a", p__one__b="", p__two__a="", p__two__b="import p.one.b")
    assert circles(found) == []
    rooms = by_room(found, room_in("p"))
    assert circles(rooms) == [["one", "two"]]
    assert upward(rooms, ("one", "two")) == ["one imports two"]
    assert upward(rooms, ("one, two",)) == ["one imports two", "two imports one"]


def test_an_order_names_every_room(tree):
    rooms = by_room(tree(p__one__a="", p__two__a="import p.one.a"), room_in("p"))
    assert upward(rooms, ("one", "two")) == []
    assert upward(rooms, ("one",)) == ["two has no place"]
    assert upward(rooms, ("one", "two", "three")) == ["three is no room"]


def test_lines_are_counted(tmp_path):
    file = tmp_path / "a.py"
    file.write_text("def outer():\n    @x\n    def inner():\n        pass\n        pass\n    pass\n")
    assert long_files([file], 6) == [] and long_files([file], 5) == [f"{file}: 6"]
    assert long_functions([file], 6) == []
    assert long_functions([file], 5) == [f"{file} outer: 6"]
    assert long_functions([file], 3) == [f"{file} outer: 6", f"{file} inner: 4"]
