#!/bin/sh
# A tool for language models: counts the lines and words of a text.
set -eu

# Tells a model what the tool does and what it takes.
if [ "${1-}" = --schema ]; then
    cat <<'SCHEMA'
{
  "name": "word_count",
  "description": "Count the lines and the words of a text, exactly.",
  "parameters": {
    "type": "object",
    "properties": {
      "text": {"type": "string", "description": "The text to count"}
    },
    "required": ["text"]
  }
}
SCHEMA
    exit 0
fi

# The answer to arguments that cannot be used, which a model wrote.
refuse() {
    jq -n --arg error "$1" '{error: $error, error_code: "INVALID_PARAMS"}'
    exit 0
}

arguments=$(cat)

# Returns whether the filter yields true for the arguments.
holds() {
    [ "$(printf '%s' "$arguments" | jq "$1" 2>/dev/null)" = true ]
}

holds 'type == "object"' || refuse 'the arguments must be one JSON object'
# shellcheck disable=SC2016
holds '.text | type == "string"' || refuse '`text` must be a string'

# -j adds no line end to the text. The last line counts without one, too.
printf '%s' "$arguments" | jq -j .text |
    awk '{ words += NF } END { printf "{\"lines\": %d, \"words\": %d}\n", NR, words }'
