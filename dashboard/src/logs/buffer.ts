// The lines of a log that are held, bounded: when it is full the oldest go.
import { plainText } from "../text/ansi";

export interface Line {
  /** Counted from the first line ever added. */
  id: number;
  /** Task index, or null for a remark of the controller's. */
  task: number | null;
  attempt: number;
  time: number;
  /** As written, escape sequences included, without the newline. */
  text: string;
}

export const MAX_LINES = 50_000;
export const MAX_CHARS = 16_000_000;
/** One line shows no more than this; the rest is told to be there. */
export const MAX_LINE_CHARS = 10_000;

export class LogBuffer {
  lines: Line[] = [];
  /** Lines that went because the buffer was full. */
  dropped = 0;
  #chars = 0;
  #next = 0;

  constructor(
    private readonly maxLines = MAX_LINES,
    private readonly maxChars = MAX_CHARS,
  ) {}

  add(lines: readonly Omit<Line, "id">[]): void {
    for (const line of lines) {
      const text = clip(line.text);
      this.lines.push({ ...line, text, id: this.#next });
      this.#next += 1;
      this.#chars += text.length;
    }
    this.#trim();
  }

  /** Indexes of the lines whose visible text holds `text`, in either case; none for "". */
  find(text: string): number[] {
    const wanted = text.toLowerCase();
    if (!wanted) return [];
    const found: number[] = [];
    this.lines.forEach((line, index) => {
      if (plainText(line.text).toLowerCase().includes(wanted)) found.push(index);
    });
    return found;
  }

  #trim(): void {
    let gone = Math.max(0, this.lines.length - this.maxLines);
    let chars = this.#chars;
    for (let at = 0; at < this.lines.length && (at < gone || chars > this.maxChars); at += 1) {
      chars -= this.lines[at]?.text.length ?? 0;
      gone = Math.max(gone, at + 1);
    }
    if (gone === 0) return;
    // A slice of its own: readers hold the former array.
    this.lines = this.lines.slice(gone);
    this.dropped += gone;
    this.#chars = chars;
  }
}

function clip(text: string): string {
  const over = text.length - MAX_LINE_CHARS;
  return over > 0 ? `${text.slice(0, MAX_LINE_CHARS)} … ${over} more characters` : text;
}
