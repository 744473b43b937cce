"""One text in the forms in which it is searched, each made when it is first asked for."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from detectsched.detection import Text
from detectsched.matching.folding import Folding
from detectsched.matching.layout import soft_breaks
from detectsched.matching.normalise import Normalised, encode, normalise
from detectsched.matching.relaxed import Leniency, Relaxed


class Views:
    """Several lists that are read alike share a form."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self._strict: dict[Folding, Normalised] = {}
        self._relaxed: dict[tuple[Folding, Leniency], Relaxed] = {}

    def strict(self, folding: Folding) -> Normalised:
        """Return the text as it stands, folded."""
        if folding not in self._strict:
            self._strict[folding] = normalise(self.text.content, folding)
        return self._strict[folding]

    def relaxed(self, folding: Folding, leniency: Leniency) -> Relaxed:
        """Return the text past its noise."""
        key = folding, leniency
        if key not in self._relaxed:
            self._relaxed[key] = Relaxed.of(
                self.strict(folding), self.codes, self._soft, leniency, image=bool(self.text.lines)
            )
        return self._relaxed[key]

    @cached_property
    def codes(self) -> npt.NDArray[np.uint32]:
        """The code points of the original."""
        return encode(self.text.content)

    @cached_property
    def _soft(self) -> list[int]:
        return soft_breaks(self.text)
