import { Label, Meter } from "react-aria-components";

/** `h100 3 of 8 free`, with a bar of what is taken. */
export function FreeMeter({ name, free, total }: { name: string; free: number; total: number }) {
  const taken = Math.max(0, total - free);
  return (
    <Meter
      className="meter"
      value={taken}
      minValue={0}
      maxValue={Math.max(1, total)}
      valueLabel={`${free} of ${total} free`}
    >
      {({ percentage, valueText }) => (
        <>
          <span className="meter-text">
            <Label>{name}</Label>
            <span>{valueText}</span>
          </span>
          <svg className="meter-bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
            <rect width="100" height="4" className="meter-all" />
            <rect width={percentage} height="4" className="meter-taken" />
          </svg>
        </>
      )}
    </Meter>
  );
}
