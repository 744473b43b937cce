"""Finding the words of word lists in a text: pure, it knows neither Redis nor SQL.

``matcher.Matcher`` is the door. Beneath it: ``folding`` (what one character is folded to), ``normalise`` (a whole text,
with the way back to its offsets), ``readings`` (the ways in which one text is read) and ``scripts`` (word boundaries).
"""
