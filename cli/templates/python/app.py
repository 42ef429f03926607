"""A tool for language models: counts the lines and words of a text or of a file."""

# Building runs this file once and keeps the memory. A module that is first imported in a call is
# missing there: import everything here.
import json
import sys

from wit_world import exports

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


def text_of(arguments):
    """Returns the text that the arguments of a call are about. A model wrote them."""
    if not isinstance(arguments, dict):
        raise ValueError("the arguments must be one JSON object")
    text, path = arguments.get("text"), arguments.get("path")
    if isinstance(text, str):
        return text
    if not isinstance(path, str):
        raise ValueError("`text` or `path` must be a string")
    with open(path, encoding="utf-8") as file:
        return file.read()


def count(text):
    is_unfinished = text != "" and not text.endswith("\n")
    return {"lines": text.count("\n") + is_unfinished, "words": len(text.split())}


def answer(input):
    try:
        return count(text_of(json.loads(input)))
    except json.JSONDecodeError as error:
        return failed("INVALID_PARAMS", f"the arguments must be one JSON object: {error}")
    except (OSError, UnicodeDecodeError) as error:
        return failed("READ_FAILED", str(error))
    except ValueError as error:
        return failed("INVALID_PARAMS", str(error))


def failed(code, reason):
    return {"error": reason, "error_code": code}


class Run(exports.Run):
    def run(self):
        is_asked = sys.argv[1:] == ["--schema"]
        json.dump(SCHEMA if is_asked else answer(sys.stdin.read()), sys.stdout)
