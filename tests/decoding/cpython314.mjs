// Runs cpython314.py in Pyodide's CPython: node cpython314.mjs <folder of the package pyodide> <repository>
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [folder, repository] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(path.join(folder, "pyodide.mjs")));
const python = await loadPyodide();
python.FS.mkdirTree("/repository");
python.FS.mount(python.FS.filesystems.NODEFS, { root: repository }, "/repository");
try {
  python.runPython(fs.readFileSync(path.join(repository, "tests/decoding/cpython314.py"), "utf8"));
} catch (error) {
  console.log(error.message);
  process.exit(1);
}
