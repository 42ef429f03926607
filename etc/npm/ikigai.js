#!/usr/bin/env node
// Starts the program of the package for this platform, and does nothing else: stdin, stdout and
// stderr are the program's own, signals are passed on, and the exit code is the program's.

"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");
const path = require("node:path");

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT", "SIGWINCH"];

function fail(message, hint) {
  process.stderr.write(`error: ${message}\nhint: ${hint}\n`);
  process.exit(1);
}

// Returns the path of the program in a package, or undefined if the package is missing.
function programOf(name) {
  try {
    return path.join(path.dirname(require.resolve(`${name}/package.json`)), "bin", "ikigai");
  } catch {
    return undefined;
  }
}

// The report has this field only if Node.js itself was linked with glibc.
function hasGlibc() {
  process.report.excludeNetwork = true;
  return process.report.getReport().header.glibcVersionRuntime !== undefined;
}

function findProgram() {
  if (process.platform !== "linux" || !["x64", "arm64"].includes(process.arch)) {
    fail(
      `ikigai does not run on ${process.platform}-${process.arch}; expected linux-x64 or linux-arm64`,
      "use a Linux machine, a virtual machine or a container",
    );
  }
  const name = `ikigai-linux-${process.arch}`;
  const [glibc, musl] = [programOf(name), programOf(`${name}-musl`)];
  // Most package managers install only the one that fits, and the report takes a while.
  const program = glibc && musl ? (hasGlibc() ? glibc : musl) : (glibc ?? musl);
  if (program === undefined) {
    const missing = hasGlibc() ? name : `${name}-musl`;
    fail(
      `the package ${missing} is not installed`,
      `install again without --omit=optional or --no-optional, or add it: npm install ${missing}`,
    );
  }
  return program;
}

const child = spawn(findProgram(), process.argv.slice(2), { stdio: "inherit" });

for (const signal of SIGNALS) {
  process.on(signal, () => child.kill(signal));
}

child.on("error", (error) => {
  fail(`cannot start the program: ${error.message}`, "install ikigai again");
});

child.on("exit", (code, signal) => {
  if (signal === null) {
    process.exit(code);
  }
  // The caller sees that a signal ended the program, as without the launcher.
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  // Node.js may ignore the signal.
  setTimeout(() => process.exit(128 + (constants.signals[signal] ?? 0)), 100);
});
