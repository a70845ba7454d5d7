// Builds jax_ipu/reports/assets/report.js and report.css; with --check it only compares them with what is committed.
import { readFile, writeFile, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { minify } from "terser";

const here = dirname(fileURLToPath(import.meta.url));
const assets = join(here, "..", "jax_ipu", "reports", "assets");
const limit = 180_000;

const license = (await readFile(join(here, "node_modules", "uplot", "LICENSE"), "utf8")).trim();
const banner = `/*! jax_ipu report, Apache-2.0, Copyright 2026 The jax_ipu authors.
Contains uPlot (https://github.com/leeoniya/uPlot), without axes of dates and of logarithms, bars and splines:

${license}
*/`;

// What the report never uses of uPlot, 19 KB: axes of dates and of logarithms, scatter plots, two ways to draw a line, areas
// between lines, lines that come later, and plots that show one cursor. What depends on these conditions is then dropped by
// the minifier.
const unused = [
  ["\t(paths.bars    = bars);\n\t(paths.spline  = monotoneCubic);\n", ""],
  ["\tuPlot.fmtDate = fmtDate;\n\tuPlot.tzDate  = tzDate;\n", ""],
  ["\tuPlot.join = join;\n", ""],
  ["= genTimeStuffs(1);", "= [];"],
  ["= genTimeStuffs(1e-3);", "= [];"],
  ["const FEAT_TIME          = true;", "const FEAT_TIME = false;"],
  ["\tconst _fmtDate = (opts.fmtDate || fmtDate);\n", "\tconst _fmtDate = null;\n"],
  ["(ms == 1 ? timeAxisSplitsMs(_tzDate) : timeAxisSplitsS(_tzDate));", "null;"],
  ["timeAxisVals(_tzDate, timeAxisStamps((ms == 1 ? _timeAxisStampsMs : _timeAxisStampsS), _fmtDate));", "null;"],
  ["const _timeSeriesVal  = timeSeriesVal(_tzDate, timeSeriesStamp(_timeSeriesStamp, _fmtDate));", "const _timeSeriesVal = null;"],
  ["let isTime = mode == 1 && scales[s.scale].time;", "const isTime = false;"],
  ["let isTime = sc.time;", "const isTime = false;"],
  ["uPlot.rangeLog = rangeLog;\nuPlot.rangeAsinh = rangeAsinh;\n", ""],
  [/\tself\.(?:addSeries|delSeries|addBand|setBand|delBand) = \w+;\n/g, ""],
  ["let bands = ifNull(self.bands, EMPTY_ARR);", "const bands = [];"],
  ["ifNull(u.bands, EMPTY_ARR).find(b => b.series[0] == seriesIdx)", "null"],
  ["flags != 0 && bands.forEach(", "false && bands.forEach("],
  ["\tself.pub = pub;\n", ""],
  ["\tsync.sub(self);\n", ""],
  ["\t\tsync.unsub(self);\n", ""],
  ["\tconst sync = _sync(syncKey);\n", ""],
  ["uPlot.sync = _sync;\n", ""],
  [/\n\t+(?:_pub && )?pubSync\(.*\);/g, "\n;"],
  ["let shouldPub = _pub && syncOpts.setSeries;", "const shouldPub = false;"],
  ["if (syncKey != null) {", "if (false) {"],
  // Without such plots, all that moves the cursor is an event.
  ["if (e != null) {\n\t\t\t_l = e.clientX", "if (true) {\n\t\t\t_l = e.clientX"],
  // Scales are linear, and x is the same for all series.
  [/(?:\w+\.)?\bdistr +== +(?:2|3|4|100)\b/g, "false"],
  [/\w+\.distr >= 3\b/g, "false"],
  [/\w+\.distr != 2\b/g, "true"],
  [/\b(?:const|let) mode = \w+\.mode;/g, "const mode = 1;"],
];

const trim = {
  name: "trim",
  setup(builder) {
    builder.onLoad({ filter: /uPlot\.esm\.js$/ }, async ({ path }) => {
      let contents = await readFile(path, "utf8");
      for (const [from, to] of unused) {
        const replaced = contents.replaceAll(from, to);
        if (replaced === contents) throw new Error(`uPlot has changed: it has no ${from}`);
        contents = replaced;
      }
      return { contents };
    });
  },
};

/** The files of the bundle: name -> text. */
export async function bundle() {
  const result = await build({
    absWorkingDir: here,
    entryPoints: [{ in: "src/main.ts", out: "report" }, { in: "style.css", out: "style" }],
    bundle: true,
    minify: true,
    write: false,
    outdir: "out",
    format: "iife",
    target: ["es2022", "chrome123", "firefox120", "safari17.5"],
    legalComments: "none",
    charset: "utf8",
    logLevel: "warning",
    plugins: [trim],
  });
  const output = (suffix) => result.outputFiles.find((file) => file.path.endsWith(suffix)).text;
  // The script stands inside a <script> element, which "</script" would end.
  const small = await minify(output("report.js"), { ecma: 2020, module: true, compress: { passes: 4, pure_getters: true } });
  const script = small.code.replaceAll("</script", "<\\/script");
  return { "report.js": `${banner}\n${script}`, "report.css": output("style.css") };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const files = await bundle();
  const size = Object.values(files).reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  if (size > limit) throw new Error(`the bundle has ${size} bytes, more than the ${limit} it may have`);
  if (process.argv.includes("--check")) {
    for (const [name, text] of Object.entries(files)) {
      const committed = await readFile(join(assets, name), "utf8").catch(() => "");
      if (committed !== text) {
        console.error(`jax_ipu/reports/assets/${name} is not what report/ builds: run "npm run build" there and commit it`);
        process.exitCode = 1;
      }
    }
  } else {
    await mkdir(assets, { recursive: true });
    for (const [name, text] of Object.entries(files)) await writeFile(join(assets, name), text);
  }
  console.log(`${size} bytes of ${limit}`);
}
