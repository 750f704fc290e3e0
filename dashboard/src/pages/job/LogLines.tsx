import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useRef } from "react";
import type { Line, LogBuffer } from "../../logs/buffer";
import { plainText, spansOf } from "../../text/ansi";
import { clockTime, fullTime } from "../../text/format";

const LINE_PX = 20;
const PADDING_PX = 6;
/** So near to the end counts as at it. */
const END_PX = 24;

interface Props {
  buffer: LogBuffer;
  version: number;
  showTask: boolean;
  search: string;
  /** Index of the line to have in sight; null = none. */
  target: number | null;
  following: boolean;
  onLeaveEnd: () => void;
  empty: string;
}

/** Only the lines in sight are in the document. */
export function LogLines({ buffer, version, showTask, search, target, following, onLeaveEnd, empty }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const { lines } = buffer;
  const rows = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_PX,
    getItemKey: (index) => lines[index]?.id ?? index,
    overscan: 20,
    paddingStart: PADDING_PX,
    paddingEnd: PADDING_PX,
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: each new version may have moved the end
  useEffect(() => {
    if (following && lines.length > 0) rows.scrollToIndex(lines.length - 1, { align: "end" });
  }, [following, version]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only another target moves the view
  useEffect(() => {
    if (target !== null) rows.scrollToIndex(target, { align: "center" });
  }, [target]);
  const leave = () => {
    const { current } = box;
    if (current && current.scrollHeight - current.scrollTop - current.clientHeight > END_PX) onLeaveEnd();
  };
  return (
    // biome-ignore lint/a11y/useSemanticElements: a group of lines, no fieldset
    <div
      ref={box}
      className="log-box"
      role="group"
      aria-label="Lines of output"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard
      tabIndex={0}
      onWheel={(event) => event.deltaY < 0 && leave()}
      onTouchMove={leave}
      onKeyUp={(event) => /^(ArrowUp|PageUp|Home)$/.test(event.key) && leave()}
    >
      {lines.length === 0 && <p className="log-empty">{empty}</p>}
      <div className="log-all" style={{ height: rows.getTotalSize() }}>
        {rows.getVirtualItems().map((row) => {
          const line = lines[row.index];
          return (
            line && (
              <div
                key={row.key}
                ref={rows.measureElement}
                data-index={row.index}
                className={lineClass(line, row.index === target)}
                style={{ transform: `translateY(${row.start}px)` }}
              >
                <time title={fullTime(line.time)}>{clockTime(line.time)}</time>
                {showTask && line.task !== null && <span className="log-task">{line.task}</span>}
                <span className="log-text">{textOf(line, search)}</span>
              </div>
            )
          );
        })}
      </div>
    </div>
  );
}

function lineClass(line: Line, isTarget: boolean): string {
  return `log-line${line.task === null ? " log-remark" : ""}${isTarget ? " log-target" : ""}`;
}

/** In the colours of a terminal; of a line that holds the text looked for, that text marked instead. */
function textOf(line: Line, search: string): ReactNode {
  const plain = plainText(line.text);
  if (search && plain.toLowerCase().includes(search.toLowerCase()))
    return marked(plain, search.toLowerCase());
  return spansOf(line.text).map((span, at) =>
    span.style ? (
      // biome-ignore lint/suspicious/noArrayIndexKey: the spans of a line never change
      <span key={at} className={span.style}>
        {span.text}
      </span>
    ) : (
      span.text
    ),
  );
}

function marked(text: string, search: string): ReactNode[] {
  const parts: ReactNode[] = [];
  let from = 0;
  for (let at = text.toLowerCase().indexOf(search); at >= 0; at = text.toLowerCase().indexOf(search, from)) {
    parts.push(text.slice(from, at), <mark key={at}>{text.slice(at, at + search.length)}</mark>);
    from = at + search.length;
  }
  return [...parts, text.slice(from)];
}
