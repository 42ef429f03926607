"""Runs a component as any host of WASI 0.2 does, with nothing of ikigai.

The argument is the component. Each line of stdin is a call, `{"args": […], "stdin": "…"}`,
made in an instance of its own with the working directory as `.`; each is answered by a
line `{"ok": …, "stdout": "…", "stderr": "…"}`.
"""

import json
import sys
import tempfile
from pathlib import Path

from wasmtime import Config, Engine, Store, WasiConfig
from wasmtime.component import Component, Linker


def command(instance, store):
    """The export `run` of `wasi:cli/run`, whichever version of 0.2 it has."""
    for patch in range(100):
        run = instance.get_export_index(store, f"wasi:cli/run@0.2.{patch}")
        if run is not None:
            return instance.get_func(store, instance.get_export_index(store, "run", run))
    sys.exit("the component is no command")


def call(engine, linker, component, asked):
    with tempfile.TemporaryDirectory() as scratch:
        stdin, stdout, stderr = (Path(scratch, name) for name in ("in", "out", "err"))
        stdin.write_text(asked["stdin"])
        wasi = WasiConfig()
        wasi.argv = ["tool", *asked["args"]]
        wasi.stdin_file, wasi.stdout_file, wasi.stderr_file = map(str, (stdin, stdout, stderr))
        wasi.preopen_dir(".", ".")
        store = Store(engine)
        store.set_wasi(wasi)
        run = command(linker.instantiate(store, component), store)
        ok = run(store).tag == "ok"
        return {"ok": ok, "stdout": stdout.read_text(), "stderr": stderr.read_text()}


def main():
    config = Config()
    # It runs for milliseconds, and is compiled for seconds.
    config.cranelift_opt_level = "none"
    engine = Engine(config)
    linker = Linker(engine)
    linker.add_wasip2()
    component = Component.from_file(engine, sys.argv[1])
    for line in sys.stdin:
        print(json.dumps(call(engine, linker, component, json.loads(line))), flush=True)


main()
