// What a terminal would colour, as spans with a class; every other escape sequence is dropped.

export interface Span {
  text: string;
  /** `ansi-bold ansi-fg-1`, or "". */
  style: string;
}

interface Pen {
  bold: boolean;
  dim: boolean;
  foreground: number | null;
}

// CSI, OSC and two-byte sequences; then every other control character but tab.
const ESCAPES =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  /\u001b\[([0-9;:?<=>]*)[ -/]*([@-~])|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[ -/]*[0-~]?|[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/** Text without escape sequences and control characters. */
export function plainText(line: string): string {
  return line.replace(ESCAPES, "");
}

export function spansOf(line: string): Span[] {
  const spans: Span[] = [];
  const pen: Pen = { bold: false, dim: false, foreground: null };
  let from = 0;
  const add = (to: number) => {
    if (to > from) spans.push({ text: line.slice(from, to), style: styleOf(pen) });
  };
  for (const match of line.matchAll(ESCAPES)) {
    add(match.index);
    from = match.index + match[0].length;
    if (match[2] === "m") draw(pen, match[1] ?? "");
  }
  add(line.length);
  return spans;
}

function styleOf(pen: Pen): string {
  const classes = [];
  if (pen.bold) classes.push("ansi-bold");
  if (pen.dim) classes.push("ansi-dim");
  if (pen.foreground !== null) classes.push(`ansi-fg-${pen.foreground}`);
  return classes.join(" ");
}

function draw(pen: Pen, parameters: string): void {
  const codes = parameters.split(/[;:]/).map(Number);
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at] ?? 0;
    if (code === 0) Object.assign(pen, { bold: false, dim: false, foreground: null });
    else if (code === 1) pen.bold = true;
    else if (code === 2) pen.dim = true;
    else if (code === 22) Object.assign(pen, { bold: false, dim: false });
    else if (code >= 30 && code <= 37) pen.foreground = code - 30;
    else if (code >= 90 && code <= 97) pen.foreground = code - 90;
    else if (code === 39) pen.foreground = null;
    // Colours out of 256 or in full are shown as plain text: their contrast is nobody's promise.
    else if (code === 38 || code === 48) at += codes[at + 1] === 5 ? 2 : 4;
  }
}
