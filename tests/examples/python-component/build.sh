#!/bin/sh
# Needs Python 3.10 or newer with venv, and an installed ikigai, which brings the WIT.
set -eu
ikigai=$(command -v ikigai) || { echo "there is no ikigai on the PATH" >&2; exit 1; }
wit=$(dirname "$(realpath "$ikigai")")/../share/ikigai/wit
python3 -m venv .venv
.venv/bin/pip install --quiet componentize-py==0.25.1
VIRTUAL_ENV=.venv .venv/bin/componentize-py --wit-path "$wit" --world wasi:cli/command@0.2.12 \
    componentize app --output number-stats.wasm
