/** Bundles the tests, because Node 20 reads no TypeScript, and runs them with Node's own runner. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const out = mkdtempSync(join(tmpdir(), "fairlead-page-"));
const names = readdirSync(here).filter((name) => name.endsWith(".test.ts"));
await build({
  entryPoints: names.map((name) => join(here, name)), outdir: out, bundle: true, platform: "node", format: "esm",
  outExtension: { ".js": ".mjs" }, jsx: "automatic", jsxImportSource: "preact", logLevel: "warning",
});
const tests = readdirSync(out).map((name) => join(out, name));
const { status } = spawnSync(process.execPath, ["--test", ...tests], { stdio: "inherit" });
rmSync(out, { recursive: true });
process.exit(status ?? 1);
