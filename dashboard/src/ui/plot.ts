/** The door to uPlot: loaded when the first chart is shown. */
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

interface Look { format(value: number | null): string; at(time: number): string; top: number | null }

/** Draw one line with the colours of the page. */
export function draw(element: HTMLElement, data: uPlot.AlignedData, look: Look): uPlot {
  const [ink, line, grid] = ["--muted", "--accent", "--line"].map((name) => colour(element, name)) as [string, string, string];
  const font = `10px ${getComputedStyle(element).fontFamily}`;
  const { top } = look;
  const axis = { stroke: ink, font, grid: { stroke: grid, width: 1 }, ticks: { show: false }, gap: 4 };
  return new uPlot(
    {
      width: element.clientWidth, height: 88, legend: { show: false }, padding: [6, 22, 0, 0],
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 5 } },
      scales: {
        x: { time: false },
        y: { range: (_, low, high) => [Math.min(0, low), top ?? Math.max(high * 1.1, 1e-9)] },
      },
      axes: [
        { ...axis, space: 90, size: 18, values: (_, ticks) => ticks.map(look.at) },
        { ...axis, space: 28, size: 58, ...(top === null ? {} : { splits: () => [0, top / 2, top] }), values: (_, ticks) => ticks.map((tick) => look.format(tick)) },
      ],
      series: [{}, { stroke: line, width: 1.5, spanGaps: false, points: { show: false } }],
    },
    data,
    element,
  );
}

/** Return a colour of the page as a canvas understands it. */
function colour(element: HTMLElement, name: string): string {
  element.style.color = `var(${name})`;
  const value = getComputedStyle(element).color;
  element.style.color = "";
  return value;
}
