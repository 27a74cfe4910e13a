"""A terminal screen that knows as much of ECMA-48 as `top` writes, and refuses everything else."""

import re

_TOKEN = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|([^\x1b])", re.DOTALL)


class SmallScreen:
    """What a terminal of a size shows after the bytes that it received."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        self.cells: list[list[str]] = []
        self.row = self.column = 0
        self.modes: set[str] = {"?25", "?7"}
        self.erase()

    def erase(self) -> None:
        self.cells = [[" "] * self.columns for _ in range(self.rows)]

    def feed(self, text: str) -> None:
        """Interpret everything that was written."""
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            assert match is not None, repr(text[position : position + 20])
            position = match.end()
            if match[3] is not None:
                self._put(match[3])
            else:
                self._control(match[1], match[2])

    def text(self) -> list[str]:
        return ["".join(row).rstrip() for row in self.cells]

    def _put(self, char: str) -> None:
        if char == "\r":
            self.column = 0
        elif char == "\n":
            self.row = min(self.rows - 1, self.row + 1)
        else:
            self.cells[self.row][min(self.column, self.columns - 1)] = char
            self.column += 1

    def _control(self, words: str, final: str) -> None:
        if final == "H":
            row, column = (int(word) for word in words.split(";"))
            self.row, self.column = min(row, self.rows) - 1, column - 1
        elif final == "K" and not words:
            self.cells[self.row][self.column :] = [" "] * (self.columns - self.column)
        elif final == "J" and words == "2":
            self.erase()
        elif final in "hl" and words.startswith("?"):
            (self.modes.add if final == "h" else self.modes.discard)(words)
        else:
            assert final == "m", (words, final)
