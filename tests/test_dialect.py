"""Character classes are read as the installed XGrammar reads them, including bytes that are not UTF-8."""

import random
from importlib import metadata

import pytest
import xgrammar

from equivalence import UnsupportedGrammar, Vocabulary
from equivalence.network import dialect
from hybrid import GrammarCompiler, GrammarMatcher
from hybrid.testing.mask_comparison import compare_walk
from tests.matchers import allowed, mask_of
from tests.versions import READS_STOPS

LEADS = (0xC0, 0xC1, 0xC2, 0xC3, 0xDF, 0xE0, 0xE3, 0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xF7, 0xF8)
FOLLOWING = (0x80, 0x8F, 0x90, 0xA0, 0xA9, 0xBF)
SINGLE = [bytes([byte]) for byte in range(256)]
TWO = [bytes([lead, one]) for lead in LEADS for one in FOLLOWING]
THREE = [text + bytes([one]) for text in TWO if text[0] >= 0xE0 for one in FOLLOWING]
FOUR = [text + b"\x80" for text in THREE if text[0] >= 0xF0]
TEXTS = [*SINGLE, *TWO, *THREE, *FOUR, "aé".encode(), "語😀a".encode(), b"a\xc0\x80b"]
VOCABULARY = Vocabulary.from_bytes([*TEXTS, b""], stop_token_ids=[len(TEXTS)])

POINTS = (
    0, 0x41, 0x5A, 0x7F, 0x80, 0xE9, 0x7FF, 0x800, 0x3042, 0x30FF, 0x9FFF, 0xD7FF, 0xE000, 0xFFFF, 0x10000,
    0x1F600, 0x10FFFF,
)  # fmt: skip
FORMS = (
    "root ::= %s*",
    'root ::= %s{2,5} "x"',
    'root ::= a{1,200}\na ::= %s | "yy"',
    'root ::= b %s\nb ::= "q"? | "w" b',
)


def test_which_versions_read_loosely() -> None:
    assert [dialect.is_loose(version) for version in ("0.2.7", "0.2.6rc2", "0.2.7.1")] == [True] * 3
    assert [dialect.is_loose(version) for version in ("0.2.8", "0.10.0", "1.0", "", "unknown")] == [False] * 5
    assert dialect.is_loose(metadata.version("xgrammar")) is dialect.LOOSE


def drawn(rng: random.Random, form: str) -> str:
    """Draw a grammar with one character class."""
    excludes = rng.random() < 0.4
    parts = []
    for _ in range(rng.randint(1, 3)):
        low, high = sorted((rng.choice(POINTS), rng.choice(POINTS)))
        if excludes and rng.random() < 0.8:
            low, high = min(low, 0x7F), min(high, 0x7F)
        parts.append(f"\\U{low:08X}-\\U{high:08X}")
    return form % f"[{'^' * excludes}{''.join(parts)}]"


@pytest.mark.parametrize("strategy", ["auto", "classifier", "representatives"])
@pytest.mark.parametrize("form", FORMS)
def test_masks_of_character_classes_are_those_of_the_installed_xgrammar(form: str, strategy: str) -> None:
    rng = random.Random(f"{form} {strategy}")
    plain = xgrammar.GrammarCompiler(VOCABULARY.tokenizer_info, max_threads=1)
    compiler = GrammarCompiler(VOCABULARY, strategy=strategy)
    for seed in range(6):
        grammar = drawn(rng, form)
        try:
            ours = compiler.compile_grammar(grammar)
        except UnsupportedGrammar:  # a range that older versions read with gaps
            assert dialect.LOOSE and strategy != "auto"
            continue
        found = compare_walk(ours, plain.compile_grammar(grammar), seed, 6)
        assert found.exact, (grammar, found.differences)


@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "string", "maxLength": 100}])
def test_counted_automata_of_schemas_are_no_repeats_of_xgrammar(
    schema: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialect, "TAKES_PARTS", True)
    compiled = GrammarCompiler(VOCABULARY, semantics="json-schema").compile_json_schema(schema)
    assert compiled.strategy == "classifier"


@pytest.mark.parametrize(
    "grammar", ["Token(0)", '"a" ExcludeToken(0)', 'TokenTagDispatch((0, two))\ntwo ::= "b"']
)
@pytest.mark.parametrize("joins", [False, True])
def test_token_ids_are_left_to_an_xgrammar_that_reads_them_within_tokens(
    grammar: str, joins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialect, "JOINS_TOKENS", joins)
    compiled = GrammarCompiler(VOCABULARY).compile_grammar(f"root ::= {grammar}")
    assert compiled.strategy == ("engine" if joins else "classifier")
    assert ("names token ids" in compiled.reason) is joins


STOPS = Vocabulary.from_bytes([*SINGLE, b"</", b"</s>", b"<eos>"], stop_token_ids=[257, 258])


@pytest.mark.parametrize(
    ("grammar", "text"),
    [
        ('"a" "</s>"', "a"), ('"a" "</s>" "b"?', "a"), ('"a" "</s>" "</s>"', "a</s>"), ("[^b]+", ""),
        ('"a" "</s>" "b"', "a"), ('"a" "</s>"', "a</s>"), ('"a" "</s>"?', "a"), ('[^b]+ "b"', "a"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("strategy", ["classifier", "representatives"])
def test_stop_tokens_end_a_text_and_are_not_read(grammar: str, text: str, strategy: str) -> None:
    ours = GrammarMatcher(GrammarCompiler(STOPS, strategy=strategy).compile_grammar(f"root ::= {grammar}"))
    compiler = xgrammar.GrammarCompiler(STOPS.tokenizer_info)
    theirs = xgrammar.GrammarMatcher(compiler.compile_grammar(f"root ::= {grammar}"))
    assert ours.accept_string(text) and theirs.accept_string(text)
    completed = theirs.is_completed()
    read = set()
    for stop in (257, 258) if READS_STOPS else ():
        whole = theirs.fork()
        if whole.accept_string(STOPS.tokens[stop]) and whole.is_completed():
            read.add(stop)
    found, plain = set(mask_of(ours)), set(allowed(theirs, STOPS.size)[1])
    assert (257 in found, 258 in found) == (completed, completed)
    assert plain == found | read
    assert ours.fork().accept_token(257) is completed
    assert theirs.accept_token(257) is (completed or 257 in read)
