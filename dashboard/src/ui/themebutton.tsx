/** Switches between the system's theme, light and dark. */
import { useState } from "preact/hooks";
import { readTheme, setTheme, THEMES } from "./theme";

export function ThemeButton() {
  const [theme, setShown] = useState(readTheme());
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? "auto";
  const change = () => {
    setTheme(next);
    setShown(next);
  };
  return <button type="button" class="theme" onClick={change} title={`Switch to ${next}`}>Theme: {theme}</button>;
}
