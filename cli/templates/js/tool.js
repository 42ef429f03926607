// A tool for language models: counts the lines and words of a text.

import { getArguments } from "wasi:cli/environment@0.2.12";
import { getStdin } from "wasi:cli/stdin@0.2.12";
import { getStdout } from "wasi:cli/stdout@0.2.12";

// Tells a model what the tool does and what it takes.
const SCHEMA = {
  name: "word_count",
  description: "Count the lines and the words of a text, exactly.",
  parameters: {
    type: "object",
    properties: { text: { type: "string", description: "The text to count" } },
    required: ["text"],
  },
};

// Returns the text in the arguments, which a model wrote.
function textOf(input) {
  let parsed;
  try {
    parsed = JSON.parse(input);
  } catch {
    parsed = null;
  }
  if (parsed === null || typeof parsed !== "object" || Array.isArray(parsed)) {
    throw new TypeError("the arguments must be one JSON object");
  }
  if (typeof parsed.text !== "string") throw new TypeError("`text` must be a string");
  return parsed.text;
}

function count(text) {
  const lines = text.split("\n");
  // What follows the last line end is a line only if there is something.
  if (lines.at(-1) === "") lines.pop();
  return { lines: lines.length, words: (text.match(/\S+/g) ?? []).length };
}

function answer(input) {
  try {
    return count(textOf(input));
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return { error: error.message, error_code: "INVALID_PARAMS" };
  }
}

// There is no `process.stdin` in a component: WASI's streams are read and written
// as they are. A read past the end throws `closed`.
function readAll(stream) {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    try {
      text += decoder.decode(stream.blockingRead(65536n), { stream: true });
    } catch (error) {
      if (error.payload?.tag !== "closed") throw error;
      return text + decoder.decode();
    }
  }
}

// WASI takes at most 4,096 bytes at once.
function writeAll(stream, text) {
  const bytes = new TextEncoder().encode(text);
  for (let start = 0; start < bytes.length; start += 4096) {
    stream.blockingWriteAndFlush(bytes.slice(start, start + 4096));
  }
}

export const run = {
  run() {
    const isAsked = getArguments().slice(1).join(" ") === "--schema";
    const result = isAsked ? SCHEMA : answer(readAll(getStdin()));
    writeAll(getStdout(), JSON.stringify(result));
  },
};
