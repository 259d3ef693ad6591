// Runs cpython314.py in Pyodide's CPython: node cpython314.mjs <folder of the package pyodide> <repository> <pytest's folder>
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [folder, repository, packages] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(path.join(folder, "pyodide.mjs")));
const python = await loadPyodide();
for (const [place, root] of Object.entries({ "/repository": repository, "/packages": packages })) {
  python.FS.mkdirTree(place);
  python.FS.mount(python.FS.filesystems.NODEFS, { root }, place);
}
try {
  python.runPython(fs.readFileSync(path.join(repository, "tests/decoding/cpython314.py"), "utf8"));
} catch (error) {
  console.log(error.message);
  process.exit(1);
}
