#!/bin/sh
# Needs Node.js 20 or newer with npm, and an installed ikigai, which brings the WIT.
# Disabled is what would import `wasi:http`, for which this tool has no use.
set -eu
ikigai=$(command -v ikigai) || { echo "there is no ikigai on the PATH" >&2; exit 1; }
wit=$(dirname "$(realpath "$ikigai")")/../share/ikigai/wit
# Over an earlier installation npm takes a package away that is needed.
rm -rf node_modules
npm install --no-audit --no-fund --no-package-lock
npx componentize-js regex-test.js --wit "$wit" --world-name wasi:cli/command@0.2.12 \
    --disable http --disable fetch-event --out regex-test.wasm
