"""`import hybrid` loads XGrammar, and nothing else that takes long.

What: the packages that are in memory after `import hybrid` but not after `import xgrammar`.
When: after adding an import at the top of a file.
Limits: XGrammar's own import loads torch and transformers, which takes two seconds.
"""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
import numpy, torch, xgrammar
before = set(sys.modules)
import hybrid
new = {name.split(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)
print(*sorted(new))
"""


def test_hybrid_brings_nothing_but_itself() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    new = {name for name in done.stdout.split() if not name.startswith(("_cython", "cython_shared"))}
    assert new == {"hybrid", "equivalence"}
