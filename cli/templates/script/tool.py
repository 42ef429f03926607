#!/usr/bin/env python3
"""A tool for language models: counts the lines and words of a text or of a file.

Any executable with these two uses is a tool, in any language:
- With --schema it prints a JSON schema.
- Else it reads one JSON object, the arguments of a call, and prints one JSON value, its answer.
"""

import json
import sys

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


def answer(arguments):
    """Returns the answer to a call. A model wrote the arguments."""
    if not isinstance(arguments, dict):
        return {"error": "the arguments must be one JSON object", "error_code": "INVALID_PARAMS"}
    text, path = arguments.get("text"), arguments.get("path")
    if not isinstance(text, str):
        if not isinstance(path, str):
            return {"error": "`text` or `path` must be a string", "error_code": "INVALID_PARAMS"}
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except (OSError, ValueError) as error:
            return {"error": f"cannot read {path}: {error}", "error_code": "READ_FAILED"}
    return {"lines": len(text.splitlines()), "words": len(text.split())}


if sys.argv[1:] == ["--schema"]:
    json.dump(SCHEMA, sys.stdout)
else:
    try:
        arguments = json.load(sys.stdin)
    except ValueError:
        arguments = None
    json.dump(answer(arguments), sys.stdout)
