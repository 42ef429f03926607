"""Makes the package `pkg` as registries serve it: pip reads `simple/`, npm the document `pkg`, and
cargo the sparse index `index/`. Its arguments are the directory and the address of the server."""

import hashlib, io, json, os, sys, tarfile, zipfile
root, to = sys.argv[1:]

def put(name, content):
    name = os.path.join(root, name)
    os.makedirs(os.path.dirname(name), exist_ok=True)
    with open(name, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())

def tarball(files):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()

wheel, info = io.BytesIO(), "pkg-1.2.3.dist-info"
with zipfile.ZipFile(wheel, "w") as packed:
    packed.writestr("pkg/__init__.py", "# from pip")
    packed.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: pkg\nVersion: 1.2.3\n")
    tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    packed.writestr(f"{info}/WHEEL", tags)
    packed.writestr(f"{info}/RECORD", "".join(f"{it},,\n" for it in packed.namelist()))
put("pkg-1.2.3-py3-none-any.whl", wheel.getvalue())
put("simple/pkg/list.html", '<a href="/pkg-1.2.3-py3-none-any.whl">pkg-1.2.3-py3-none-any.whl</a>')

package = {"name": "pkg", "version": "1.2.3"}
put("pkg.tgz", tarball({"package/package.json": json.dumps(package), "package/said": "from npm"}))
dist = {"tarball": f"http://{to}/pkg.tgz"}
versions = {"1.2.3": {**package, "dist": dist}}
put("pkg", json.dumps({"name": "pkg", "dist-tags": {"latest": "1.2.3"}, "versions": versions}))

crate = tarball({
    "pkg-1.2.3/Cargo.toml": '[package]\nname = "pkg"\nversion = "1.2.3"\nedition = "2021"\n',
    "pkg-1.2.3/src/lib.rs": "// from cargo",
})
put("pkg.crate", crate)
put("index/config.json", json.dumps({"dl": f"http://{to}/{{crate}}.crate"}))
entry = {"name": "pkg", "vers": "1.2.3", "deps": [], "features": {}, "yanked": False}
put("index/3/p/pkg", json.dumps({**entry, "cksum": hashlib.sha256(crate).hexdigest()}) + "\n")
