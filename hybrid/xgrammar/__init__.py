"""XGrammar itself: its serialised grammars, made safe, guarded, and told where they leave something out."""
