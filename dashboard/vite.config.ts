/**
 * Builds the page into the Python package, so that a wheel needs no Node.
 *
 * The files are committed: `npm ci && npm run build` gives the same bytes (tests/page/test_built.py).
 */
import { readFileSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";

const LIBRARIES = ["preact", "uplot"];

/** Return the licences of what is in the bundle: both ask for a copy of their text. */
function licences(): string {
  const texts = LIBRARIES.map((name) => {
    const home = new URL(`./node_modules/${name}/`, import.meta.url);
    const version = (JSON.parse(readFileSync(new URL("package.json", home), "utf8")) as { version: string }).version;
    return `${name} ${version}\n\n${readFileSync(new URL("LICENSE", home), "utf8").trim()}\n`;
  });
  return `The page of the dashboard contains these libraries.\n\n${texts.join("\n\n")}`;
}

const withLicences: Plugin = {
  name: "licences",
  generateBundle() {
    this.emitFile({ type: "asset", fileName: "LICENSES.txt", source: licences() });
  },
};

export default defineConfig({
  base: "/",
  plugins: [withLicences],
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    outDir: "../src/fairlead/serve/dashboard/static",
    emptyOutDir: true,
    target: "es2022",
    // Chromium and the policy of the server: no inline scripts, no data in the page.
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    reportCompressedSize: false,
    sourcemap: false,
  },
});
