/** How components read what is live: each draws again only when its own part has changed. */
import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import type { Rows, TableName } from "../api/types";
import type { Live } from "../state/live";
import type { TableView } from "../state/table";

export const LiveContext = createContext<Live>(null as unknown as Live);

export function useLive(): Live {
  return useContext(LiveContext);
}

/** Return a part of what is live; `select` must return the same value while nothing has changed. */
export function useSelect<T>(select: (live: Live) => T): T {
  const live = useLive();
  const [, redraw] = useState(0);
  const value = select(live);
  useEffect(() => {
    let seen = value;
    return live.subscribe(() => {
      const next = select(live);
      if (!Object.is(next, seen)) {
        seen = next;
        redraw((count) => count + 1);
      }
    });
  });
  return value;
}

/** Return a table that is kept current as long as the page is open. */
export function useTable<N extends TableName>(name: N): TableView<Rows[N]> {
  const live = useLive();
  const about = useSelect((from) => from.about);
  useEffect(() => live.need([name]), [live, name, about]);
  return useSelect((from) => from.table(name));
}

/** Return the server's time, drawn again each second. */
export function useNow(): number {
  const live = useLive();
  const [now, setNow] = useState(live.clock.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(live.clock.now()), 1000);
    return () => clearInterval(timer);
  }, [live]);
  return Math.max(now, live.clock.now() - 1);
}

/** Return whether a media query holds. */
export function useMedia(query: string): boolean {
  const [holds, setHolds] = useState(matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const listen = () => setHolds(list.matches);
    listen();
    list.addEventListener("change", listen);
    return () => list.removeEventListener("change", listen);
  }, [query]);
  return holds;
}

export const PHONE = "(max-width: 640px)";
