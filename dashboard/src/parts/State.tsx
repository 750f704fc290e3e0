import type { Look } from "./states";

/** A state as a word with a mark of its own shape, so that colour is not all that tells. */
export function State({ look, code }: { look: Look; code?: string | undefined }) {
  return (
    <span className={`state state-${look.tone}`} title={code}>
      <svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
        {MARKS[look.tone]}
      </svg>
      {look.word}
    </span>
  );
}

const MARKS = {
  wait: <circle cx="6" cy="6" r="4" className="ring" />,
  run: <path d="M3 1.8 10.4 6 3 10.2Z" />,
  good: <path d="M1.8 6.4 4.8 9.2 10.2 3" className="stroke" />,
  bad: <path d="M2.4 2.4l7.2 7.2M9.6 2.4 2.4 9.6" className="stroke" />,
  off: <path d="M2 6h8" className="stroke" />,
};
