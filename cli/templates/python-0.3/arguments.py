"""The arguments of a call, which arrive in pieces. The text is counted and dropped; the rest is JSON
that is small enough to keep."""

import json
import re

from count import Counter

# The contents of a string, up to its last quote or to an escape that is not complete. Two escapes
# are one character if the first is half of it, as in "\ud83d\ude00".
CONTENTS = re.compile(
    r"""(?: [^"\\]++
          | \\u[dD][89abAB].{8}
          | \\u(?![dD][89abAB])[^"\\]{4}
          | \\[^u]
        )*+""",
    re.VERBOSE | re.DOTALL,
)
LONGEST_ESCAPE = 12

# The key of the text, and everything before it.
BEFORE_TEXT = re.compile(r'.*[{,]\s*"text"\s*:\s*', re.DOTALL)


class Arguments:
    """The arguments, as far as they have arrived."""

    def __init__(self):
        # The arguments, with an empty string in place of the text.
        self._kept = ""
        # The beginning of an escape.
        self._held = ""
        self._is_in_string = False
        self._is_in_text = False
        # The number of objects and lists around the place.
        self._depth = 0
        self._text = Counter()

    def add(self, piece):
        piece = self._held + piece
        at = 0
        while at < len(piece):
            step = self._go_through_string if self._is_in_string else self._go_to_string
            after = step(piece, at)
            if after == at:
                break
            at = after
        self._held = piece[at:]
        if len(self._held) > LONGEST_ESCAPE:
            raise ValueError("an escape is not valid")

    def _go_to_string(self, piece, at):
        """Keeps everything before the next string, and its first quote."""
        quote = piece.find('"', at)
        before = piece[at:] if quote < 0 else piece[at:quote]
        self._depth += sum(map(before.count, "{[")) - sum(map(before.count, "}]"))
        self._kept += before
        if quote < 0:
            return len(piece)
        self._is_in_string = True
        self._is_in_text = self._depth == 1 and BEFORE_TEXT.fullmatch(self._kept) is not None
        if self._is_in_text:
            self._text = Counter()
        self._kept += '"'
        return quote + 1

    def _go_through_string(self, piece, at):
        """Counts or keeps as much of a string as is complete, and its last quote."""
        end = CONTENTS.match(piece, at).end()
        contents = piece[at:end]
        if self._is_in_text:
            self._text.add(json.loads(f'"{contents}"'))
        else:
            self._kept += contents
        if piece[end : end + 1] != '"':
            return end
        self._is_in_string = False
        self._kept += '"'
        return end + 1

    def finish(self):
        """Returns what was counted of the text, or None, and the path, or None."""
        kept = json.loads(self._kept)
        if not isinstance(kept, dict):
            raise ValueError("it is not an object")
        if not isinstance(text := kept.get("text"), str):
            return None, kept.get("path")
        # It is not empty if its key was written with an escape.
        self._text.add(text)
        return self._text, kept.get("path")
