#!/bin/sh
# A tool for language models: counts the lines and words of a text or of a file.
set -eu

# Tells a model what the tool does and what it takes.
if [ "${1-}" = --schema ]; then
    cat <<'SCHEMA'
{
  "name": "word_count",
  "description": "Count the lines and the words of a text or a file, exactly.",
  "parameters": {
    "type": "object",
    "properties": {
      "text": {"type": "string", "description": "The text to count"},
      "path": {"type": "string", "description": "The file to count, without a text"}
    }
  }
}
SCHEMA
    exit 0
fi

# Answers a call that cannot be done. The model that wrote the arguments reads it.
fail() {
    jq -n --arg error "$1" --arg code "$2" '{error: $error, error_code: $code}'
    exit 0
}

arguments=$(cat)

# Returns whether the filter yields true for the arguments.
holds() {
    [ "$(printf '%s' "$arguments" | jq "$1" 2>/dev/null)" = true ]
}

# Counts stdin. The last line counts without a line end, too.
count() {
    awk '{ words += NF } END { printf "{\"lines\": %d, \"words\": %d}\n", NR, words }'
}

holds 'type == "object"' || fail 'the arguments must be one JSON object' INVALID_PARAMS
if holds '.text | type == "string"'; then
    # -j adds no line end to the text.
    printf '%s' "$arguments" | jq -j .text | count
    exit 0
fi
# shellcheck disable=SC2016
holds '.path | type == "string"' || fail '`text` or `path` must be a string' INVALID_PARAMS
path=$(printf '%s' "$arguments" | jq -j .path)
[ -f "$path" ] && [ -r "$path" ] || fail "cannot read $path" READ_FAILED
count <"$path"
