"""A tool for language models: counts the lines and words of a text."""

import json
import sys

from wit_world import exports

# Tells a model what the tool does and what it takes.
SCHEMA = {
    "name": "word_count",
    "description": "Count the lines and the words of a text, exactly.",
    "parameters": {
        "type": "object",
        "properties": {"text": {"type": "string", "description": "The text to count"}},
        "required": ["text"],
    },
}


def text_of(arguments):
    """Returns the text in the arguments, which a model wrote."""
    if not isinstance(arguments, dict):
        raise ValueError("the arguments must be one JSON object")
    text = arguments.get("text")
    if not isinstance(text, str):
        raise ValueError("`text` must be a string")
    return text


def count(text):
    is_unfinished = text != "" and not text.endswith("\n")
    return {"lines": text.count("\n") + is_unfinished, "words": len(text.split())}


def answer(input):
    try:
        return count(text_of(json.loads(input)))
    except json.JSONDecodeError as error:
        reason = f"the arguments must be one JSON object: {error}"
    except ValueError as error:
        reason = str(error)
    return {"error": reason, "error_code": "INVALID_PARAMS"}


class Run(exports.Run):
    def run(self):
        is_asked = sys.argv[1:] == ["--schema"]
        json.dump(SCHEMA if is_asked else answer(sys.stdin.read()), sys.stdout)
