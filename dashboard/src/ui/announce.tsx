/** Short messages about what the viewer did, seen and read out. */
import { createContext, type ComponentChildren } from "preact";
import { useCallback, useContext, useRef, useState } from "preact/hooks";

type Announce = (text: string) => void;
const AnnounceContext = createContext<Announce>(() => undefined);

export function useAnnounce(): Announce {
  return useContext(AnnounceContext);
}

export function Announcer({ children }: { children: ComponentChildren }) {
  const [text, setText] = useState("");
  const timer = useRef(0);
  const announce = useCallback((next: string) => {
    clearTimeout(timer.current);
    setText(next);
    timer.current = setTimeout(() => setText(""), 5000) as unknown as number;
  }, []);
  return (
    <AnnounceContext.Provider value={announce}>
      {children}
      <div class={`toast ${text === "" ? "gone" : ""}`} role="status" aria-live="polite">{text}</div>
    </AnnounceContext.Provider>
  );
}
