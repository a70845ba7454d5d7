// Rows as a file for a spreadsheet: RFC 4180.

/** The text of a file: strings in quotes where they need them, numbers as they are, nothing for null. */
export function csvText(heads: string[], rows: (string | number | null)[][]): string {
  const cell = (value: string | number | null) => {
    const text = value === null ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [heads, ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

/** Saves a text as a file of the reader. */
export function download(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
