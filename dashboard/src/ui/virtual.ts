/** The part of a long list that is in view, and a little more. */
import { useEffect, useState } from "preact/hooks";
import type { RefObject } from "preact";

const MORE = 8;

export interface Window { first: number; last: number }

/** Return which rows to draw for a scroll position. */
export function windowOf(count: number, height: number, scroll: number, room: number): Window {
  const first = Math.max(0, Math.min(count, Math.floor(scroll / height) - MORE));
  return { first, last: Math.min(count, Math.ceil((scroll + room) / height) + MORE) };
}

/** Follow the scroll position of a box. */
export function useWindow(box: RefObject<HTMLElement | null>, count: number, height: number): Window {
  const [place, setPlace] = useState({ scroll: 0, room: 800 });
  useEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    let frame = 0;
    const read = () => {
      frame = 0;
      setPlace((old) => {
        const next = { scroll: element.scrollTop, room: element.clientHeight };
        const same = Math.floor(old.scroll / height) === Math.floor(next.scroll / height) && old.room === next.room;
        return same ? old : next;
      });
    };
    const soon = () => {
      if (frame === 0) frame = requestAnimationFrame(read);
    };
    const size = new ResizeObserver(soon);
    size.observe(element);
    element.addEventListener("scroll", soon, { passive: true });
    read();
    return () => {
      cancelAnimationFrame(frame);
      size.disconnect();
      element.removeEventListener("scroll", soon);
    };
  }, [box, height]);
  return windowOf(count, height, place.scroll, place.room);
}
