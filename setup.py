"""How the compiled modules are built; everything else about the package stands in pyproject.toml.

A module is compiled if its first line is a directive of Cython (`# cython: ...`). It is Python with types:
each becomes an extension of the same name beside it, which Python prefers to the `.py` file.

    python setup.py build_ext --inplace            as `make` does; only what has changed is compiled
    EQUIMASK_CHECKED=1 python setup.py build ...   with every index checked, for the tests

What Cython needs for arrays is one extension of its own, `equivalence.cython_shared_4`, which the others
import: compiled into each of them it was 60% of the time to build and half of the bytes.

Rejected: to compile the Python around these modules as it is. With 18 modules of the way from a schema to its
masks compiled so, a first mask took 6% longer, and the rest of the document 2% less. With 18 more modules of
the front end of JSON Schema compiled so, a first mask under `semantics="json-schema"` took 0 to 4% less. What
pays is to give the classes that everything asks typed attributes and C methods: locations, declarations,
assertions, nonterminals and objects as such classes take a tenth off the instructions of a first mask.

Rejected: Python's limited API, one `abi3` wheel for all versions. Cython 3.3 builds all 86 modules for
it from Python 3.11 on (3.10 has no buffers in it), if `hybrid/api/calls.pxd` asks Python for the value
of an int in place of reading it. With Python 3.11, medians of two alternating rounds of CPU time: a
known mask took 18% longer (351 -> 416 ns), a known token 37% (167 -> 229 ns), the document behind a
first mask of 40 of MaskBench's schemas 10%; first masks took as long. 5% was allowed.

Rejected: profile-guided optimisation (gcc 12, profiles of 600 schemas in three modes). The extensions became
a tenth smaller. A first mask took 3 to 4% less CPU time under `semantics="json-schema"`, and no less at
defaults, for a second build and a run with profiles for every wheel. If caches were cold, it read 2% fewer
cache lines of code, and no fewer at defaults (40 schemas, callgrind). -Os everywhere saves as many lines, but
takes 7% more instructions. Functions without alignment, with error paths apart, save 1% of the lines.

Every extension knows a hash of what it was made from (`equivalence.source_check`), so that code which was
edited and not built again is refused where it is imported.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import sys
from pathlib import Path
from types import ModuleType

import Cython
from Cython.Build import cythonize
from Cython.Compiler import Options
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).parent
PACKAGES = ("equivalence", "hybrid")
CHECKED = os.environ.get("EQUIMASK_CHECKED", "0") != "0"
C_FILES = Path("build") / ("checked-c" if CHECKED else "c")
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

# Unchecked, as C is: indices are never negative, divisors never 0 or negative. A checked build finds what
# breaks the first of these rules.
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": CHECKED,
    "wraparound": False,
    "initializedcheck": CHECKED,
    "show_performance_hints": not CHECKED,  # one for each index that is checked: 2,500 lines
    "nonecheck": False,  # it refuses `self.x += ...` without the interpreter's lock
    "cdivision": True,
    "infer_types": True,  # what is computed from typed values needs no types of its own
    "embedsignature": False,
    "freethreading_compatible": True,  # docs/processes.md says why
    "auto_pickle": False,  # no compiled object is pickled: files have their own formats
    "binding": False,  # plain built-in functions: called faster, and seen by profilers
}

# Modules whose first line says `wraparound=True` are ordinary Python that is compiled as it is: indices,
# integers and divisions mean what they mean in Python. The front end of JSON Schema takes three quarters of
# the time so.
ORDINARY = DIRECTIVES | {
    "boundscheck": True,
    "wraparound": True,
    "cdivision": False,
    "infer_types": None,
    "annotation_typing": False,
}

# -O2: with -O3 the files grow by a sixth and nothing is faster. -g0: nine tenths of them would be symbols.
# The build that checks every index runs small tests once: -O0 takes half as long to build as -O1, and a third
# of -O2. With -O1 everywhere, first masks took 7% longer.
LEVEL = "-O0" if CHECKED else "-O2"
# Ordinary modules without types are calls of the interpreter: -Os takes half the time to build, the files are
# a third smaller, and a first mask takes as long (four alternating runs). With types, -Os is 8% slower.
ORDINARY_LEVEL = "-O0" if CHECKED else "-Os"


def _flags(level: str) -> list[str]:
    if sys.platform == "win32":
        return ["/O2", "/volatile:ms"]  # equivalence/atomic.pxd
    # modules call the interpreter all the time: without a jump in between, 5% fewer misses of the instruction
    # cache for a first mask
    direct = ["-fno-plt"] if sys.platform == "linux" else []
    return [level, "-g0", *direct, "-Wno-unused-function", "-Wno-sign-compare"]


def _built() -> ModuleType:
    """`equivalence.source_check`, without importing the package, whose extensions are not there yet."""
    spec = importlib.util.spec_from_file_location("_built", HERE / "equivalence" / "source_check.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BUILT = _built()
if sys.platform == "linux":  # from Python 3.14 on, another method is the default
    multiprocessing.set_start_method("fork", force=True)
Options.buffer_max_dims = BUILT.DIMENSIONS
SHARED = f"equivalence.cython_shared_{BUILT.DIMENSIONS}"  # a new name, so that an old one is not kept


def _extensions() -> tuple[list[Extension], list[Extension]]:
    """The typed modules, and the ordinary ones."""
    typed, ordinary = [], []
    for package in PACKAGES:
        for source in sorted((HERE / package).rglob("*.py")):
            with open(source, encoding="utf-8") as file:
                first = file.readline()
            if not first.startswith("# cython:"):
                continue
            path = source.relative_to(HERE)
            name = ".".join(path.with_suffix("").parts)
            made_from = BUILT.source_hash(source)
            translated, note = (C_FILES / path).with_suffix(".c"), C_FILES / "made" / name
            if not note.exists() or note.read_text(encoding="utf-8") != made_from:
                translated.unlink(missing_ok=True)  # Cython would look at the times of files
                note.parent.mkdir(parents=True, exist_ok=True)
                note.write_text(made_from, encoding="utf-8")
            macros = [("EQUIMASK_SOURCE", f'"{made_from}"')]
            is_ordinary = "wraparound=True" in first
            is_typed = not is_ordinary or "annotation_typing=True" in first
            flags = _flags(LEVEL if is_typed else ORDINARY_LEVEL)
            group = ordinary if is_ordinary else typed
            group.append(Extension(name, [str(path)], define_macros=macros, extra_compile_args=flags))
    typed.append(Extension(SHARED, [SHARED.replace(".", "/") + ".c"], extra_compile_args=_flags(LEVEL)))
    return typed, ordinary


class Build(build_ext):
    """Compiles several extensions at once, and those again that were made from other sources.

    Times of files do not tell: they change with a checkout, and not with a declaration of another module.
    """

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or CORES
        self.force = True

    def run(self) -> None:
        self._remove_former()
        super().run()

    def _remove_former(self) -> None:
        """What was built of files that are gone, or are Python now, would go into a wheel, or hide them."""
        wanted = {Path(self.get_ext_filename(extension.name)) for extension in self.extensions}
        if self.inplace:
            ending = self.get_ext_filename("")
            for package in PACKAGES:
                for path in (HERE / package).rglob("*" + ending):
                    if path.relative_to(HERE) not in wanted:
                        path.unlink()
        built = Path(self.build_lib)
        for path in built.rglob("*"):
            inner = path.relative_to(built)
            if path.is_file() and inner not in wanted and not (HERE / inner).is_file():
                path.unlink()

    def build_extension(self, extension: Extension) -> None:
        if extension.name == SHARED:  # made from nothing but Cython, whose version it names
            made_from = "_cython_" + Cython.__version__.replace(".", "_")
        else:
            made_from = dict(extension.define_macros)["EQUIMASK_SOURCE"].strip('"')
        target = Path(self.get_ext_fullpath(extension.name))
        if not target.exists() or made_from.encode() not in target.read_bytes():
            super().build_extension(extension)


def _translated(extensions: list[Extension], directives: dict[str, object]) -> list[Extension]:
    extensions = cythonize(
        extensions,
        compiler_directives=directives,
        build_dir=str(C_FILES),
        shared_utility_qualified_name=SHARED,
        # a process that is not forked would not know the number of dimensions
        nthreads=CORES if multiprocessing.get_start_method() == "fork" else 0,
        quiet=True,
    )
    for extension in extensions:
        for source in extension.sources:
            text = Path(source).read_text(encoding="utf-8")
            if "Py_ssize_t shape[" in text and f"Py_ssize_t shape[{BUILT.DIMENSIONS}]" not in text:
                raise RuntimeError(f"{source} has views of another size: run `make clean`")
    return extensions


TYPED, PLAIN = _extensions()

setup(
    ext_modules=[*_translated(TYPED, DIRECTIVES), *_translated(PLAIN, ORDINARY)],
    cmdclass={"build_ext": Build},
)
