/** A line over time: a canvas for the eye, a sentence and a table for everybody. */
import { useEffect, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import { clockTime } from "../state/format";
import { useTheme } from "./theme";

interface Props {
  title: string;
  times: readonly number[];
  values: readonly (number | null)[];
  format(value: number | null): string;
  /** The highest possible value, where there is one. */
  top?: number | null;
  /** How a point of the horizontal axis reads; the time of day unless told. */
  at?(time: number): string;
}

export function TimeChart({ title, times, values, format, top = null, at = clockTime }: Props) {
  const known = values.filter((value): value is number => value !== null);
  const last = values.at(-1) ?? null;
  const range = known.length === 0 ? "unknown" : `${format(Math.min(...known))} to ${format(Math.max(...known))}`;
  return (
    <figure class="chart">
      <figcaption><span>{title}</span> <b>{format(last)}</b></figcaption>
      {known.length === 0
        ? <p class="quiet">Unknown: this device does not measure it.</p>
        : <Canvas label={`${title}: ${range}, now ${format(last)}`} times={times} values={values} format={format} top={top} at={at} />}
      {known.length > 0 && <Values title={title} times={times} values={values} format={format} at={at} />}
    </figure>
  );
}

type Drawn = Required<Omit<Props, "title">>;

function Canvas({ label, times, values, format, top, at }: Drawn & { label: string }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const theme = useTheme();
  const data = [times, values] as unknown as uPlot.AlignedData;
  useEffect(() => {
    let gone = false;
    const element = box.current as HTMLDivElement;
    const size = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: 88 }));
    void import("./plot").then(({ draw }) => {
      if (gone) return;
      plot.current = draw(element, data, { format, at, top });
      size.observe(element);
    });
    return () => {
      gone = true;
      size.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [theme]);
  useEffect(() => plot.current?.setData(data), [times, values]);
  return <div class="canvas" ref={box} role="img" aria-label={label} />;
}

function Values({ title, times, values, format, at }: Tabled) {
  const [open, setOpen] = useState(false);
  const step = Math.max(1, Math.ceil(times.length / 30));
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Table<span class="offscreen"> of {title}</span></summary>
      {open && (
        <table class="small">
          <thead><tr><th scope="col">Time</th><th scope="col" class="figures">{title}</th></tr></thead>
          <tbody>
            {times.map((time, index) => (index % step === 0 || index === times.length - 1) && (
              <tr key={time}><td>{at(time)}</td><td class="figures">{format(values[index] ?? null)}</td></tr>
            ))}
          </tbody>
        </table>
      )}
    </details>
  );
}

type Tabled = Omit<Drawn, "top"> & { title: string };
