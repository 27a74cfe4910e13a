/** An answer that is not a table: fetched when it is shown, again when its subject changes, and now and then. */
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api/client";
import { useLive } from "./context";

export interface Fetched<T> { data: T | null; error: string | null }

/** Return the answer at a path. `version` is whatever makes an answer old; `every` is in seconds. */
export function useFetched<T>(path: string | null, version: unknown = null, every = 5): Fetched<T> {
  const live = useLive();
  const [state, setState] = useState<Fetched<T> & { path: string | null }>({ path: null, data: null, error: null });
  const reading = useRef(false);
  useEffect(() => {
    if (path === null) return undefined;
    const abort = new AbortController();
    const read = async () => {
      if (reading.current || document.hidden) return;
      reading.current = true;
      try {
        const data = await live.client.get<T>(path, abort.signal);
        if (!abort.signal.aborted) setState({ path, data, error: null });
      } catch (error) {
        if (abort.signal.aborted) return;
        const text = error instanceof ApiError ? say(error) : String(error);
        setState((old) => ({ path, data: old.path === path ? old.data : null, error: text }));
      } finally {
        reading.current = false;
      }
    };
    reading.current = false;
    void read();
    const timer = setInterval(() => void read(), every * 1000);
    return () => {
      clearInterval(timer);
      abort.abort();
    };
  }, [live, path, version, every]);
  return state.path === path ? state : { data: null, error: null };
}

/** Return what is wrong and what to do, as one line. */
export function say(error: ApiError): string {
  const { what, where, next } = error.fault;
  return [where ? `${where}: ${what}` : what, next].filter((part) => part !== "").join(". ");
}
