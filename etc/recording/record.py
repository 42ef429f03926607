#!/usr/bin/env python3
"""Records the terminal session of the README: a command is refused, granted, and runs.

It types into a real shell with the `ikigai` of the PATH, in a home of its own, and writes what
the terminal shows as an asciicast (version 2, https://docs.asciinema.org/manual/asciicast/v2/).
svg-term, from npm, draws it:

    etc/recording/record.py docs/start/refusal.cast
    npx svg-term-cli@2.1.1 --window --no-cursor --in docs/start/refusal.cast --out docs/start/refusal.svg
"""

import fcntl
import json
import os
import pty
import select
import shutil
import struct
import sys
import tempfile
import termios
import time

COLUMNS, ROWS = 92, 24
PROMPT = "$ "

# Each step: the line to type, and the questions that it leads to, each with the key that answers it.
STEPS = [
    ("ikigai tool call bash '{\"command\":\"ls -A ~\"}'", []),
    (
        "ikigai tool call file_read '{\"file_path\":\"../shared/rules.txt\"}'",
        [("deny, and tell the model", "a"), ("back to the question", "y")],
    ),
    ("ikigai audit --tail 2", []),
]


class Recording:
    """What a shell in a terminal of its own shows, with the times."""

    def __init__(self, home, project):
        self.events, self.shown = [], ""
        child, self.terminal = pty.fork()
        if child == 0:
            os.chdir(project)
            env = {"PATH": os.environ["PATH"], "HOME": home, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
            os.execve("/bin/bash", ["bash", "--norc", "--noprofile"], env | {"PS1": PROMPT})
        size = struct.pack("HHHH", ROWS, COLUMNS, 0, 0)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, size)
        self.began = time.monotonic()

    def read(self, seconds):
        """Keeps what appears in this time."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if select.select([self.terminal], [], [], left)[0]:
                text = os.read(self.terminal, 65536).decode(errors="replace")
                self.shown += text
                self.events.append([round(time.monotonic() - self.began, 3), "o", text])

    def wait(self, text):
        """Reads until a text appears that was not there before."""
        start = time.monotonic()
        while text not in self.shown:
            if time.monotonic() - start > 60:
                sys.exit(f"`{text}` did not appear:\n{self.shown}")
            self.read(0.05)

    def press(self, key):
        self.shown = ""
        os.write(self.terminal, key.encode())

    def type(self, line):
        for key in line:
            os.write(self.terminal, key.encode())
            self.read(0.03)


def main(path):
    root = tempfile.mkdtemp(prefix="ikigai-recording-")
    try:
        home, project, shared = (f"{root}/{name}" for name in ("home/me", "srv/project", "srv/shared"))
        for place in (home, project, shared):
            os.makedirs(place)
        with open(f"{shared}/rules.txt", "w") as file:
            file.write("Be kind.\n")
        recording = Recording(home, project)
        recording.wait(PROMPT)
        for line, questions in STEPS:
            recording.type(line)
            recording.read(0.4)
            recording.press("\n")
            for question, key in questions:
                recording.wait(question)
                recording.read(2.0)
                recording.press(key)
            recording.wait(PROMPT)
            recording.read(2.0)
        header = {"version": 2, "width": COLUMNS, "height": ROWS}
        lines = [header, *recording.events]
        with open(path, "w") as file:
            # Everything lies in a directory with a random name.
            file.writelines(json.dumps(line).replace(root, "") + "\n" for line in lines)
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
