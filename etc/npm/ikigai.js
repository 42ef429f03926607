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

// The name of the package with the programs for this machine.
function platformPackage() {
  const cpus = ["x64", "arm64"];
  if (process.platform !== "linux" || !cpus.includes(process.arch)) {
    fail(
      `ikigai does not run on ${process.platform}-${process.arch}; expected linux-x64 or linux-arm64`,
      "use a Linux machine, a virtual machine or a container",
    );
  }
  // The report has this field only if Node.js itself was linked with glibc.
  process.report.excludeNetwork = true;
  const glibc = process.report.getReport().header.glibcVersionRuntime;
  return `ikigai-linux-${process.arch}${glibc ? "" : "-musl"}`;
}

function findProgram() {
  const name = platformPackage();
  try {
    return path.join(path.dirname(require.resolve(`${name}/package.json`)), "bin", "ikigai");
  } catch {
    fail(
      `the package ${name} is not installed`,
      `install again without --omit=optional or --no-optional, or add it: npm install ${name}`,
    );
  }
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
