"""Token classes by CFGzip's preprocessor, a program in the package cfgzip.

What: `find` finds the program, `Peer` passes it a vocabulary and grammars, `relate` compares its classes with
ours.
When: ``python -m bench classes --peer cfgzip``.
Limits: it reads its own dialect of GBNF. If it refuses a grammar as written, it gets the grammar once more as
XGrammar prints it. Its relation is displacement. It runs with one thread and with limits of time and memory.
If it exceeds a limit, it runs once more without tokens that repeat a byte (its own option), and the result
says so: each of those tokens is then alone in a class, without being examined.

The program expects the name of a model, and looks for its tokenizer in a folder with the structure of
huggingface_hub. `Peer` writes such a folder, with a byte-level tokenizer that has the same bytes for the same
ids and no merges; no network is used.
"""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xgrammar
from numpy.typing import NDArray

from equivalence import Vocabulary
from hybrid.xgrammar.sanitize import without_lookahead

PROGRAM = "cfgzip-preprocess"
MODEL = "bench/vocabulary"

_TIMING = re.compile(r"cfgzip timing: (\w+)=([0-9.]+)")


@dataclass
class PeerResult:
    """The peer's result for one grammar; ``classes`` is None if there is none.

    ``seconds`` is the time that it reports, without loading its tokenizer; ``class_seconds`` is the time of
    the classes alone.
    """

    classes: int | None = None
    seconds: float | None = None
    class_seconds: float | None = None
    form: str = ""
    attempts: list[str] = field(default_factory=list)
    relation: dict[str, Any] = field(default_factory=dict)


def find() -> str:
    """Return the path of the program.

    Raises:
        ValueError: it is not installed.
    """
    path = shutil.which(PROGRAM)
    if path is None:
        raise ValueError(f"there is no program {PROGRAM}; install it with: pip install 'equimask[bench]'")
    return path


class Peer:
    """The program and one vocabulary, in a temporary folder; use it as a context manager."""

    def __init__(self, vocabulary: Vocabulary, seconds: float, memory_bytes: int) -> None:
        self.program = find()
        self.vocabulary = vocabulary
        self.seconds = seconds
        self.memory_bytes = memory_bytes
        self._folder = tempfile.TemporaryDirectory(prefix="equimask-bench-")
        self.folder = Path(self._folder.name)
        self.left_out = write_tokenizer(vocabulary, self.folder / "hub")

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def run(self, grammar: xgrammar.Grammar, text: str | None, ours: NDArray[np.int32]) -> PeerResult:
        """Compute the classes of one grammar, and compare them with ours (`class_of_token`)."""
        forms = [("as written", text)] if text is not None else []
        forms.append(("as XGrammar prints it", printed(grammar)))
        result = PeerResult()
        for name, source in forms:
            for skip in (False, True):
                form = f"{name}, without tokens that repeat a byte" if skip else name
                problem, is_refusal = self._attempt(source, skip, result)
                if not problem:
                    found = self._read()
                    result.form, result.relation = form, relate(ours, found, self.vocabulary)
                    allowed = (self.vocabulary.token_lengths > 0) & (found >= 0)
                    result.classes = int(np.unique(found[allowed]).size)  # classes of tokens with text
                    return result
                result.attempts.append(f"{form}: {problem}")
                if is_refusal:
                    break
        return result

    def _attempt(self, source: str, skip: bool, result: PeerResult) -> tuple[str, bool]:
        """Run the program. Return what went wrong ("" if nothing), and whether the grammar was refused."""
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        (self.folder / "grammar.gbnf").write_text(source, encoding="utf-8")
        command = [
            *(self.program, "--no-progress", "--timings", *(["--skip-repeat-bytes"] if skip else [])),
            *("--model-id", MODEL, "--cache-dir", str(self.folder / "hub"), "--start-symbol", "root"),
            *("--grammar-file", str(self.folder / "grammar.gbnf"), "--output", str(self.folder / "out")),
            *("--num-threads", "1"),
        ]
        limit = self.memory_bytes

        def bound_memory() -> None:
            import resource

            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=self.seconds, preexec_fn=bound_memory
            )
        except subprocess.TimeoutExpired:
            return f"stopped after {self.seconds:.0f} s", False
        if done.returncode == 0:
            timings = {name: float(value) for name, value in _TIMING.findall(done.stdout + done.stderr)}
            result.seconds = timings["total_s"] - timings["load_tokenizer_s"]
            result.class_seconds = timings["compute_token_classes_total_s"]
            return "", False
        if "memory allocation" in done.stderr or done.returncode < 0:
            return f"needs more than {limit / 2**30:.0f} GiB of memory", False
        reason = next((line for line in done.stderr.splitlines() if "rror" in line), "no reason given")
        return reason.removeprefix("Error: ")[:200], True

    def _read(self) -> NDArray[np.int64]:
        """Read the class of each id; -1 for none."""
        import torch

        found = torch.load(self.folder / "out" / "tc.pt", weights_only=True).numpy().astype(np.int64)
        padded = np.full(self.vocabulary.size, -1, np.int64)
        padded[: min(found.size, padded.size)] = found[: padded.size]
        return padded


def printed(grammar: xgrammar.Grammar) -> str:
    """Return a grammar as XGrammar prints it, one rule per line, in the syntax that the peer reads.

    Lookahead assertions are removed; they do not restrict texts. A zero byte gets its longer escape.
    """
    serialized = json.loads(grammar.serialize_json())
    if without_lookahead(serialized):
        grammar = xgrammar.Grammar.deserialize_json(json.dumps(serialized))
    return re.sub(r"\\(.)", lambda found: r"\x00" if found[1] == "0" else found[0], str(grammar))


def write_tokenizer(vocabulary: Vocabulary, hub: Path) -> int:
    """Write a byte-level tokenizer with the same bytes for the same ids. Return the number of ids left out.

    If another id has the same bytes already, an id is left out: a byte-level tokenizer cannot have both.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = byte_letters()
    words: dict[str, int] = {}
    left_out = 0
    for token_id, token in enumerate(vocabulary.tokens):
        if token:
            word = "".join(letters[byte] for byte in token)
            left_out += word in words
            words.setdefault(word, token_id)
    # it requires a token for the end of the text; an id beyond the vocabulary does no harm
    stop = next((i for i in vocabulary.stop_token_ids if not vocabulary.tokens[i]), vocabulary.size)
    name = next(name for number in itertools.count() if (name := f"<|end{number}|>") not in words)
    tokenizer = Tokenizer(models.BPE(words | {name: stop}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([name])
    model = hub / f"models--{MODEL.replace('/', '--')}"
    snapshot = model / "snapshots" / "main"
    snapshot.mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("main")
    tokenizer.save(str(snapshot / "tokenizer.json"))
    (snapshot / "tokenizer_config.json").write_text(json.dumps({"eos_token": name}))
    return left_out


def byte_letters() -> dict[int, str]:
    """Return the letter that byte-level tokenizers write for each byte (GPT-2's table)."""
    plain = {byte for byte in range(256) if not (byte < 33 or 127 <= byte <= 160 or byte == 173)}
    others = (byte for byte in range(256) if byte not in plain)
    letters = {byte: chr(byte) for byte in plain}
    return letters | {byte: chr(256 + number) for number, byte in enumerate(others)}


def relate(ours: NDArray[np.int32], found: NDArray[np.int64], vocabulary: Vocabulary) -> dict[str, Any]:
    """Compare the peer's classes with ours. Its relation is finer, so each class should lie within one of
    ours.

    Returns:
        ``refines``: whether it allows the same ids and each of its classes lies within one of ours.
            ``split``: how many of its classes do not. ``examples``: two tokens of some of those. ``missing``:
            how many ids it never allows although we do.
    """
    text = vocabulary.token_lengths > 0
    both = np.flatnonzero(text & (found >= 0))
    _, first, inverse = np.unique(found[both], return_index=True, return_inverse=True)
    leader = both[first[inverse]]
    differing = ours[both] != ours[leader]
    pairs = zip(both[differing].tolist(), leader[differing].tolist(), strict=True)
    examples = {int(found[a]): f"{vocabulary.tokens[b]!r} and {vocabulary.tokens[a]!r}" for a, b in pairs}
    missing = int((text & (found < 0) & (ours >= 0)).sum())
    return {
        "refines": not examples and not missing,
        "split": len(examples),
        "examples": list(examples.values())[:10],
        "missing": missing,
    }
