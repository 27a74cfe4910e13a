/** `/` goes to the filter, Escape leaves the detail. */
import { useEffect } from "preact/hooks";

export function useShortcuts(): void {
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      const typing = event.target instanceof HTMLElement && event.target.matches("input, select, textarea");
      if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
        document.querySelector<HTMLInputElement>("input[type=search]")?.focus();
        event.preventDefault();
      } else if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
        document.querySelector<HTMLAnchorElement>(".detail .back")?.click();
      }
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
}
