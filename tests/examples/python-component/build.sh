#!/bin/sh
# Needs Python 3.10 or newer with venv. WIT is the path of ikigai's `wit` folder.
set -eu
python3 -m venv .venv
.venv/bin/pip install --quiet componentize-py==0.25.1
.venv/bin/componentize-py --wit-path "$WIT" --world wasi:cli/command@0.2.12 \
    componentize app --output number-stats.wasm
