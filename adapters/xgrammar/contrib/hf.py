"""The logits processor for transformers, under XGrammar's name.

What: `LogitsProcessor` is `adapters.transformers.GrammarLogitsProcessor` for this package's compiled
grammars. It also supports beam search and assisted decoding, and may be used again.
When: pass ``logits_processor=[LogitsProcessor(compiled)]`` to `generate`.
Limits: scores beyond the vocabulary are masked out, too; XGrammar leaves them as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import xgrammar

from adapters.transformers import GrammarLogitsProcessor
from adapters.xgrammar.compiled import CompiledGrammar
from adapters.xgrammar.conversion import grammar_of


class LogitsProcessor(GrammarLogitsProcessor):
    """Masks the scores of every row with its grammar's next tokens.

    Args:
        compiled_grammar: one grammar for all rows, or a list.
        **options: options of `GrammarLogitsProcessor`.

    Attributes:
        compiled_grammars: the list of the given grammars.
        full_vocab_size: number of ids of their vocabulary.
    """

    def __init__(
        self,
        compiled_grammar: CompiledGrammar | xgrammar.CompiledGrammar | Sequence[CompiledGrammar],
        **options: Any,
    ) -> None:
        given = compiled_grammar if isinstance(compiled_grammar, (list, tuple)) else [compiled_grammar]
        self.compiled_grammars = [grammar_of(one) for one in given]
        super().__init__([one.hybrid for one in self.compiled_grammars], **options)
        self.full_vocab_size = self.compiled_grammars[0].tokenizer_info.vocab_size
