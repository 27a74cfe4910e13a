/** Where the page is: `#/queue/shop%2Ftrainer`. The server never sees it, nor a token that stands there once. */

export const PANELS = [
  "queue", "fleet", "shares", "predictions", "pipelines", "augmentations", "rightsizing", "simulations",
] as const;
export type Panel = (typeof PANELS)[number];
export interface Route { panel: Panel; key: string | null }

export function parseRoute(hash: string): Route {
  const [panel, key] = hash.replace(/^#\/?/, "").split("/", 2);
  const known = PANELS.find((name) => name === panel);
  return { panel: known ?? "queue", key: known && key ? decode(key) : null };
}

export function href(panel: Panel, key: string | null = null): string {
  return key === null ? `#/${panel}` : `#/${panel}/${encodeURIComponent(key)}`;
}

/** Return the token of `#token=...`, or null. */
export function tokenOf(hash: string): string | null {
  const token = new URLSearchParams(hash.replace(/^#/, "")).get("token");
  return token === "" ? null : token;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
