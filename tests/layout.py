"""Read from the source which module imports which, and how long files and functions are.

What: `read_imports` returns the modules of a tree with the modules that each imports; `circles` and `upward`
check these imports; `long_files` and `long_functions` check sizes.
When: in `tests.test_layout`, on the project and on small trees made up to test the checks.
Limits: names are followed as they are written. Imports in a package's `__init__` count for that package, not
for each module within it; a module name that is put together at run time is not seen.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path

COMPILED = "cython.cimports."
"""Cython's prefix of a module whose declarations are imported."""

_DECLARED = re.compile(r"^\s*from\s+([\w.]+)\s+cimport\s+([\w, ]+)|^\s*cimport\s+([\w.]+)", re.MULTILINE)

Imports = Mapping[str, Collection[str]]
"""For each module, the modules of the tree that it imports."""


def read_imports(root: Path, packages: Iterable[str]) -> dict[str, set[str]]:
    """Return, for each module in some packages, which of the others it imports, also inside functions.

    Imports under `if TYPE_CHECKING` count too; imports of modules outside do not. `from package import name`
    counts as an import of the module `package.name` if there is one, else of `package`. A `.pxd` is part of
    its module.

    Args:
        root: the folder that holds the packages.
        packages: their names.
    """
    files: dict[str, list[Path]] = {}
    for package in packages:
        for file in sorted((root / package).rglob("*.p[yx]*")):
            if file.suffix in (".py", ".pxd"):
                parts = file.relative_to(root).with_suffix("").parts
                files.setdefault(".".join(parts).removesuffix(".__init__"), []).append(file)
    return {
        module: {
            name for file in sources for given in _names(file) if (name := _module_of(given, files))
        } - {module}
        for module, sources in files.items()
    }  # fmt: skip


def _module_of(name: str, modules: Collection[str]) -> str:
    """Return the module that a name refers to or is defined in; "" for one outside of the tree."""
    if name in modules:
        return name
    before = name.rpartition(".")[0]
    return before if before in modules else ""


def _names(file: Path) -> Iterator[str]:
    """Return everything that a file imports, as `module` or `module.name`."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".pxd":
        for module, names, whole in _DECLARED.findall(text):
            yield from (f"{module}.{name.split()[0]}" for name in names.split(",") if name.split())
            if whole:
                yield whole
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name.removeprefix(COMPILED) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError(f"{file}, line {node.lineno}: a relative import")
            module = (node.module or "").removeprefix(COMPILED)
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            if node.args and isinstance(node.args[0], ast.Constant):
                yield str(node.args[0].value)


# --- Judging imports -------------------------------------------------------------------------------------


def by_room(imports: Imports, room_of: Callable[[str], str]) -> dict[str, set[str]]:
    """Return the imports between rooms.

    Args:
        imports: the imports between modules.
        room_of: a function from a module to its room.
    """
    rooms: dict[str, set[str]] = {}
    for module, imported in imports.items():
        room = room_of(module)
        rooms.setdefault(room, set()).update(room_of(other) for other in imported)
        rooms[room].discard(room)
    return rooms


def room_in(parent: str) -> Callable[[str], str]:
    """Return a function that maps a module to its folder or file within a package: `a.b.c` is in room `b` of
    `a`; the package's own `__init__` is room `__init__`, and everything outside is room "".

    Args:
        parent: the package's name.
    """

    def room_of(module: str) -> str:
        if module == parent:
            return "__init__"
        return module.removeprefix(parent + ".").split(".")[0] if module.startswith(parent + ".") else ""

    return room_of


def circles(imports: Imports) -> list[list[str]]:
    """Return the sets of modules that import one another in a circle, each sorted; there should be none."""
    found: list[list[str]] = []
    reached = {module: _reached(module, imports) for module in imports}
    for module in sorted(imports):
        if module in reached[module] and not any(module in circle for circle in found):
            found.append(sorted(other for other in reached[module] if module in reached.get(other, ())))
    return found


def _reached(module: str, imports: Imports) -> set[str]:
    """Return all modules that a module leads to; the module itself only if something leads back to it."""
    seen: set[str] = set()
    waiting = list(imports[module])
    while waiting:
        other = waiting.pop()
        if other not in seen:
            seen.add(other)
            waiting.extend(imports.get(other, ()))
    return seen


def upward(rooms: Imports, order: Iterable[str]) -> list[str]:
    """Return what violates an order of rooms: imports of rooms that come later in it, rooms that it leaves
    out, and names in it that are not rooms.

    Args:
        rooms: which room imports which.
        order: the rooms, starting with the one that imports no other; rooms in one string, written "a, b",
            may not import one another.
    """
    place = {room: i for i, step in enumerate(order) for room in step.split(", ")}
    wrong = [f"{room} has no place" for room in rooms if room not in place]
    wrong += [f"{room} is no room" for room in place if room not in rooms]
    for room, imported in rooms.items():
        for other in imported:
            if place.get(other, -1) >= place.get(room, len(place)):
                wrong.append(f"{room} imports {other}")
    return sorted(wrong)


# --- Sizes -----------------------------------------------------------------------------------------------


def sources(root: Path, packages: Iterable[str]) -> list[Path]:
    """Return the Python files in some packages of a folder."""
    return sorted(file for package in packages for file in (root / package).rglob("*.py"))


def long_files(files: Iterable[Path], most: int) -> list[str]:
    """Return the files of more than `most` lines, as "file: lines"."""
    found = []
    for file in files:
        lines = len(file.read_text(encoding="utf-8").splitlines())
        if lines > most:
            found.append(f"{file}: {lines}")
    return found


def long_functions(files: Iterable[Path], most: int) -> list[str]:
    """Return the functions of more than `most` lines, including decorators and nested functions, as "file
    function: lines"."""
    found = []
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                lines = (node.end_lineno or first) - first + 1
                if lines > most:
                    found.append(f"{file} {node.name}: {lines}")
    return found
