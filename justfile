# What people type. Each recipe is one line; the work is done by `cargo xtask`, and by
# `.ci/run` for all of CI.

# List the recipes
default:
    @just --list

# Build in release and install, into ~/.local or `--prefix DIR`
install *ARGS:
    cargo xtask install {{ARGS}}

# Make the files of a release; `just dist --target TRIPLE --only npm` for some of them
dist *ARGS:
    cargo xtask dist {{ARGS}}

# All tests; `just test -- FILTER` for some of it
test *ARGS:
    cargo xtask test {{ARGS}}

# Build all tools, or the named ones, and lay them out in the build tree
tools *NAMES:
    cargo xtask tools {{NAMES}}

# Build one tool
tool-bash: (tools "bash")
tool-file-read: (tools "file-read")
tool-file-write: (tools "file-write")
tool-file-edit: (tools "file-edit")
tool-glob: (tools "glob")
tool-grep: (tools "grep")

# Write the reference pages of the documentation
docs:
    cargo xtask docs

# Measure, and compare with the targets
bench *ARGS:
    cargo xtask bench {{ARGS}}

# Fuzz the parsers and WASI 0.3; `just fuzz ere --seconds 600` for one of them, longer
fuzz *ARGS:
    cargo xtask fuzz {{ARGS}}

# Formatting, clippy, dependencies
lint:
    cargo xtask lint

# The whole of CI, as CI runs it
ci:
    bash .ci/run
