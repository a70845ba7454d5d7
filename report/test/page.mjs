// The page as jax_ipu/reports/html.py writes it, from the committed bundle.
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { deflateRawSync } from "node:zlib";

const assets = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "jax_ipu", "reports", "assets");

export async function page(...reports) {
  const script = await readFile(join(assets, "report.js"), "utf8");
  const style = await readFile(join(assets, "report.css"), "utf8");
  const data = reports.map((report, index) => {
    const text = deflateRawSync(Buffer.from(JSON.stringify(report))).toString("base64");
    return `<script type="application/octet-stream;base64" id="report-data${index ? `-${index + 1}` : ""}">${text}</script>`;
  });
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${reports[0].program.name}</title>
<style>${style}</style>
<div id="app"></div>
${data.join("\n")}
<script>${script}</script>
</html>
`;
}
