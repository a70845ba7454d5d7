// The Chromium that is installed, without a window.
import { existsSync } from "node:fs";
import puppeteer from "puppeteer-core";

const places = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

export function chromium() {
  const executablePath = places.find((path) => path && existsSync(path));
  if (!executablePath) throw new Error("Chromium is not installed: apt-get install chromium, or set CHROMIUM to its path");
  return puppeteer.launch({ executablePath, headless: true, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
}
