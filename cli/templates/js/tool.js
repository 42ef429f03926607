// A tool for language models: counts the lines and words of a text or of a file.

import { getArguments } from "wasi:cli/environment@0.2.12";
import { getStdin } from "wasi:cli/stdin@0.2.12";
import { getStdout } from "wasi:cli/stdout@0.2.12";
import { getDirectories } from "wasi:filesystem/preopens@0.2.12";

// Tells a model what the tool does and what it takes.
const SCHEMA = {
  name: "word_count",
  description: "Count the lines and the words of a text or a file, exactly.",
  parameters: {
    type: "object",
    properties: {
      text: { type: "string", description: "The text to count" },
      path: { type: "string", description: "The file to count, without a text" },
    },
  },
};

// A call that cannot be done. The model that wrote the arguments reads it.
class Failure extends Error {
  constructor(code, reason) {
    super(reason);
    this.code = code;
  }
}

// Returns the text that the arguments of a call are about.
function textOf(input) {
  let parsed;
  try {
    parsed = JSON.parse(input);
  } catch {
    parsed = null;
  }
  if (parsed === null || typeof parsed !== "object" || Array.isArray(parsed)) {
    throw new Failure("INVALID_PARAMS", "the arguments must be one JSON object");
  }
  if (typeof parsed.text === "string") return parsed.text;
  if (typeof parsed.path === "string") return readFile(parsed.path);
  throw new Failure("INVALID_PARAMS", "`text` or `path` must be a string");
}

// Reads a file by WASI, whose paths are relative to a granted directory. The workspace is `.`.
function readFile(path) {
  for (const [directory, name] of getDirectories()) {
    const isRelative = name === "." && !path.startsWith("/");
    if (!isRelative && !path.startsWith(`${name}/`)) continue;
    try {
      const rest = isRelative ? path : path.slice(name.length + 1);
      const file = directory.openAt({ symlinkFollow: true }, rest, {}, { read: true });
      return readAll(file.readViaStream(0n));
    } catch (error) {
      // The payload is a word, such as `no-entry`.
      throw new Failure("READ_FAILED", `cannot read ${path}: ${error.payload ?? error}`);
    }
  }
  throw new Failure("READ_FAILED", `cannot read ${path}: no granted directory has it`);
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
    if (!(error instanceof Failure)) throw error;
    return { error: error.message, error_code: error.code };
  }
}

// A component has no `process.stdin` and no `fs`: WASI's streams are read and written
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
