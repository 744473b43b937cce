"""What lists seek beside words: numbers with check digits, addresses, plates, regular expressions.

``compiled.CompiledRule`` is the door; every other module finds some kinds.
"""
