#!/bin/sh
# Needs Rust from rustup; the first line is for once.
set -eu
rustup target add wasm32-wasip2
cargo build --release --target wasm32-wasip2
cp target/wasm32-wasip2/release/text-count.wasm .
