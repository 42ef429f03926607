"""A tool as a component, in Python: exact statistics of a list of numbers."""

import json
import statistics
import sys

from wit_world import exports

SCHEMA = {
    "name": "number_stats",
    "description": "Count, sum, mean, median and standard deviation of numbers, exactly.",
    "parameters": {
        "type": "object",
        "properties": {
            "numbers": {
                "type": "array",
                "items": {"type": "number"},
                "description": "At least one number",
            }
        },
        "required": ["numbers"],
    },
}


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def answer(text):
    try:
        numbers = json.loads(text)["numbers"]
        if not isinstance(numbers, list) or not numbers or not all(map(is_number, numbers)):
            raise ValueError("`numbers` must be a list of at least one number")
    except (ValueError, KeyError, TypeError) as error:
        return {"error": f"invalid arguments: {error}", "error_code": "INVALID_PARAMS"}
    return {
        "count": len(numbers),
        "sum": sum(numbers),
        "mean": statistics.mean(numbers),
        "median": statistics.median(numbers),
        "stdev": statistics.pstdev(numbers),
    }


class Run(exports.Run):
    def run(self):
        result = SCHEMA if sys.argv[1:] == ["--schema"] else answer(sys.stdin.read())
        sys.stdout.write(json.dumps(result))
