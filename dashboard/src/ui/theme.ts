/** Dark or light: as the system prefers, or as the viewer switched. */
import { useEffect, useState } from "preact/hooks";

export const THEMES = ["auto", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];
const KEY = "fairlead.theme";
const listeners = new Set<() => void>();

export function readTheme(): Theme {
  const kept = storage(() => localStorage.getItem(KEY));
  return THEMES.find((theme) => theme === kept) ?? "auto";
}

export function setTheme(theme: Theme): void {
  storage(() => localStorage.setItem(KEY, theme));
  document.documentElement.dataset["theme"] = theme;
  for (const listener of listeners) listener();
}

/** Return the theme in force; charts are drawn again when it changes. */
export function useTheme(): string {
  const [theme, set] = useState(inForce());
  useEffect(() => {
    const listen = () => set(inForce());
    const system = matchMedia("(prefers-color-scheme: dark)");
    listeners.add(listen);
    system.addEventListener("change", listen);
    return () => {
      listeners.delete(listen);
      system.removeEventListener("change", listen);
    };
  }, []);
  return theme;
}

function inForce(): string {
  const theme = readTheme();
  if (theme !== "auto") return theme;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** Storage may be forbidden; the page works without. */
function storage<T>(use: () => T): T | null {
  try {
    return use();
  } catch {
    return null;
  }
}
