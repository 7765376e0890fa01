"""How the code is laid out: files and functions stay short, and imports run one way.

What: sizes, and which module imports which, are read from the source.
When: after a change of either; `docs/layout.md` says the same in words.
Limits: names are followed as they are written. Imports in a package's `__init__` count for that package, not
for each module within it; a module name that is put together at run time is not seen.

The lists below name the exceptions; an exception that is no longer needed is an error too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("equivalence", "hybrid", "adapters", "bench", "tools", "tests")

MOST_LINES, MOST_LINES_A_FUNCTION = 500, 120

PACKAGE_ORDER = ("equivalence, tools", "hybrid", "adapters", "bench", "tests")

EQUIVALENCE_ORDER = (
    "atomic, bounded_cache, errors, source_check, context_values, weak_methods",
    "array_files, forks",
    "deadline",
    "arguments, arrays",
    "network, parser, runs, trie",
    "walks",
    "vocabulary",
    "classes",
    "lark, __init__",
)

HYBRID_ORDER = (
    "values",
    "json_schema",
    "xgrammar",
    "guard",
    "representatives",
    "classifier",
    "uniqueness",
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


Imports = Mapping[str, Collection[str]]
"""For each module, the modules of the tree that it imports."""

# --- Reading imports -------------------------------------------------------------------------------------

COMPILED = "cython.cimports."
"""Cython's prefix of a module whose declarations are imported."""

DECLARED = re.compile(r"^\s*from\s+([\w.]+)\s+cimport\s+([\w, ]+)|^\s*cimport\s+([\w.]+)", re.MULTILINE)


def read_imports(root: Path, packages: Iterable[str]) -> dict[str, set[str]]:
    """Return, for each module in some packages, which of the others it imports, also inside functions.

    Imports under `if TYPE_CHECKING` count too; imports of modules outside do not. `from package import name`
    counts as an import of the module `package.name` if there is one, else of `package`. A `.pxd` is part of
    its module.
    """
    files: dict[str, list[Path]] = {}
    for package in packages:
        for file in sorted((root / package).rglob("*.p[yx]*")):
            if file.suffix in (".py", ".pxd"):
                parts = file.relative_to(root).with_suffix("").parts
                files.setdefault(".".join(parts).removesuffix(".__init__"), []).append(file)
    found: dict[str, set[str]] = {module: set() for module in files}
    for module, sources in files.items():
        for name in (name for file in sources for name in names_in(file)):
            imported = name if name in files else name.rpartition(".")[0]
            if imported in files and imported != module:
                found[module].add(imported)
    return found


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def names_in(file: Path) -> Iterator[str]:
    """Return everything that a file imports, as `module` or `module.name`."""
    if file.suffix == ".pxd":
        for module, names, whole in DECLARED.findall(file.read_text(encoding="utf-8")):
            yield from (f"{module}.{name.split()[0]}" for name in names.split(",") if name.split())
            yield whole
        return
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name.removeprefix(COMPILED) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").removeprefix(COMPILED)
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            if node.args and isinstance(node.args[0], ast.Constant):
                yield str(node.args[0].value)


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


def within(package: str, given: Imports) -> dict[str, set[str]]:
    """The imports between the modules of a package."""
    inside = [module for module in given if f"{module}.".startswith(f"{package}.")]
    return {module: {*given[module]} & {*inside} for module in inside}


# --- Judging imports -------------------------------------------------------------------------------------


def by_room(given: Imports, room_of: Callable[[str], str]) -> dict[str, set[str]]:
    """Return the imports between rooms, given the room of each module."""
    rooms: dict[str, set[str]] = {}
    for module, imported in given.items():
        room = room_of(module)
        rooms.setdefault(room, set()).update(room_of(other) for other in imported)
        rooms[room].discard(room)
    return rooms


def room_in(package: str) -> Callable[[str], str]:
    """Return a function from a module of a package to its folder or file there: `a.b.c` is in room `b`."""
    return lambda module: (
        "__init__" if module == package else module.removeprefix(f"{package}.").split(".")[0]
    )


def upward(rooms: Imports, order: Iterable[str]) -> list[str]:
    """Return what violates an order of rooms: imports of rooms that come later in it, rooms that it leaves
    out, and names in it that are not rooms.

    Args:
        rooms: which room imports which.
        order: the rooms, starting with the one that imports no other; rooms in one string, written "a, b",
            may not import one another.
    """
    place = {room: i for i, step in enumerate(order) for room in step.split(", ")}
    wrong = [f"{room} has no place, or is no room" for room in rooms.keys() ^ place.keys()]
    for room, imported in rooms.items():
        for other in imported:
            if place.get(other, -1) >= place.get(room, len(place)):
                wrong.append(f"{room} imports {other}")
    return sorted(wrong)


# --- The project -----------------------------------------------------------------------------------------


def test_files_and_functions_are_short() -> None:
    long = []
    for file in (file for package in PACKAGES for file in (ROOT / package).rglob("*.py")):
        sizes = [("", len(file.read_text(encoding="utf-8").splitlines()), MOST_LINES)]
        for node in ast.walk(tree_of(file)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                first = min(one.lineno for one in [node, *node.decorator_list])
                sizes.append((node.name, (node.end_lineno or first) - first + 1, MOST_LINES_A_FUNCTION))
        long += [f"{file} {name}: {lines}" for name, lines, most in sizes if lines > most]
    assert long == []


def test_imports_between_packages_run_one_way():
    rooms = by_room(without(BY_NAME), lambda module: module.split(".")[0])
    assert upward(rooms, PACKAGE_ORDER) == []
    assert rooms["equivalence"] == rooms["tools"] == set()


def test_imports_form_no_circle() -> None:
    TopologicalSorter(without(WHERE_CALLED)).prepare()  # names the modules of a circle


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        *WHERE_CALLED,
        *BY_NAME,
        ("equivalence.network.edges", "equivalence.network.sorted_set"),  # in its declarations
        ("equivalence.network.edges", "equivalence.network.edge_types"),  # from cython.cimports
    ],
)
def test_imports_of_all_kinds_are_seen(module: str, imported: str) -> None:
    assert imported in imports()[module]


@pytest.mark.parametrize(("package", "order"), [("equivalence", EQUIVALENCE_ORDER), ("hybrid", HYBRID_ORDER)])
def test_rooms_of_a_package_have_an_order(package: str, order: Iterable[str]) -> None:
    assert upward(by_room(within(package, without(WHERE_CALLED)), room_in(package)), order) == []


def test_rooms_within_a_room_form_no_circle():
    packages = {module.rpartition(".")[0] for module in imports()} - {"", "hybrid"}
    assert {"equivalence.lark", "equivalence.walks", "bench"} <= packages
    for package in sorted(packages):
        TopologicalSorter(by_room(within(package, imports()), room_in(package))).prepare()


def test_the_document_has_the_same_orders():
    text = (ROOT / "docs" / "layout.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?:^ {4}\S.*\n)+", text, re.MULTILINE)
    orders = [[set(line.split()) for line in reversed(block.splitlines())] for block in blocks]
    for order in (EQUIVALENCE_ORDER, HYBRID_ORDER):
        rooms = [set(step.split(", ")) - {"__init__", "__main__"} for step in order]
        assert [step for step in rooms if step] in orders
