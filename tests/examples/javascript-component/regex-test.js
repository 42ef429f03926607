// A tool as a component, in JavaScript: try a regular expression on a text.

import { getArguments } from "wasi:cli/environment@0.2.12";
import { getStdin } from "wasi:cli/stdin@0.2.12";
import { getStdout } from "wasi:cli/stdout@0.2.12";

const SCHEMA = {
  name: "regex_test",
  description: "All matches of a JavaScript regular expression in a text, with their groups.",
  parameters: {
    type: "object",
    properties: {
      pattern: { type: "string", description: "The expression, without slashes" },
      flags: { type: "string", description: "Flags, such as i or m (default none)" },
      text: { type: "string", description: "The text to search" },
    },
    required: ["pattern", "text"],
  },
};

function answer(input) {
  try {
    const { pattern, flags, text } = JSON.parse(input);
    if (typeof pattern !== "string") throw new TypeError("`pattern` must be a string");
    if (typeof text !== "string") throw new TypeError("`text` must be a string");
    const expression = new RegExp(pattern, "g" + (flags ?? "").replace("g", ""));
    const matches = Array.from(text.matchAll(expression), (match) => ({
      index: match.index,
      text: match[0],
      groups: match.slice(1),
    }));
    return { matches };
  } catch (error) {
    return { error: String(error.message ?? error), error_code: "INVALID_PARAMS" };
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
    const asked = getArguments().slice(1).join(" ") === "--schema";
    const result = asked ? SCHEMA : answer(readAll(getStdin()));
    writeAll(getStdout(), JSON.stringify(result));
  },
};
