"""A tool for language models: counts the lines and words of a text or of a file.

It reads its input as a stream of WASI 0.3, so it never holds the whole text.
"""

# Building runs these files once and keeps the memory. A module that is first imported in a call is
# missing there: import everything here.
import codecs
import json

import wit_world
from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import environment, stdin, stdout

from arguments import Arguments
from count import Counter

# Tells a model what the tool does and what it takes.
SCHEMA = {
    "name": "word_count",
    "description": "Count the lines and the words of a text or a file, exactly.",
    "parameters": {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "The text to count"},
            "path": {"type": "string", "description": "The file to count, without a text"},
        },
    },
}

# The most bytes that the tool reads at once.
PIECE = 64 * 1024


async def pieces_of_input():
    """Yields the input, piece by piece, as text."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    stream, end = stdin.read_via_stream()
    with stream, end:
        while not stream.writer_dropped:
            yield decoder.decode(await stream.read(PIECE))
        if isinstance(result := await end.read(), Err):
            raise OSError(result.value)
    yield decoder.decode(b"", final=True)


async def read_arguments():
    """Reads the arguments of the call, and counts the text among them."""
    arguments = Arguments()
    async for piece in pieces_of_input():
        arguments.add(piece)
    return arguments.finish()


def count_file(path):
    """Counts a file, piece by piece. Python reads files with WASI 0.2, which a component may import
    beside 0.3."""
    counter = Counter()
    with open(path, encoding="utf-8", newline="") as file:
        while piece := file.read(PIECE):
            counter.add(piece)
    return counter


async def answer():
    try:
        text, path = await read_arguments()
    except ValueError as error:
        return failed("INVALID_PARAMS", f"the arguments must be one JSON object: {error}")
    except OSError as error:
        return failed("READ_FAILED", f"cannot read the input: {error}")
    try:
        if text is None and not isinstance(path, str):
            return failed("INVALID_PARAMS", "`text` or `path` must be a string")
        counter = text or count_file(path)
    except (OSError, UnicodeDecodeError) as error:
        return failed("READ_FAILED", str(error))
    return {"lines": counter.lines, "words": counter.words}


def failed(code, reason):
    return {"error": reason, "error_code": code}


async def write(text):
    writer, reader = wit_world.byte_stream()
    end = stdout.write_via_stream(reader)
    with writer:
        await writer.write_all(text.encode())
    if isinstance(result := await end.read(), Err):
        raise result


class Run(exports.Run):
    async def run(self):
        is_asked = environment.get_arguments()[1:] == ["--schema"]
        await write(json.dumps(SCHEMA if is_asked else await answer()))
