// What `jco run` is told beside the component: the files that it may see.
import { _setPreopens } from "@bytecodealliance/preview2-shim/filesystem";

_setPreopens({ ".": process.cwd() });
