#!/bin/sh
# Needs Node.js 20 or newer with npm. WIT is the path of ikigai's `wit` folder.
# Disabled is what would import `wasi:http`, for which this tool has no use.
set -eu
# Over an earlier installation npm takes a package away that is needed.
rm -rf node_modules
npm install --no-audit --no-fund --no-package-lock
npx componentize-js regex-test.js --wit "$WIT" --world-name wasi:cli/command@0.2.12 \
    --disable http --disable fetch-event --out regex-test.wasm
