"""Lines and words of a text that arrives in pieces."""


class Counter:
    """Counts the pieces of a text."""

    def __init__(self):
        self.words = 0
        self._line_ends = 0
        self._last = "\n"

    def add(self, piece):
        if not piece:
            return
        self._line_ends += piece.count("\n")
        self.words += len(piece.split())
        if not self._last.isspace() and not piece[0].isspace():
            # A word that began in the piece before.
            self.words -= 1
        self._last = piece[-1]

    @property
    def lines(self):
        return self._line_ends + (self._last != "\n")
