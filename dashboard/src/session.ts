/** The viewer's token: from the address once, then kept for this tab alone. */
import { tokenOf } from "./state/route";

const KEY = "fairlead.token";

/** Return the token, and remove it from the address so that it is neither copied nor kept in the history. */
export function takeToken(): string | null {
  const given = tokenOf(location.hash);
  if (given === null) return storage(() => sessionStorage.getItem(KEY));
  keepToken(given);
  history.replaceState(null, "", location.pathname + location.search);
  return given;
}

export function keepToken(token: string | null): void {
  storage(() => (token === null ? sessionStorage.removeItem(KEY) : sessionStorage.setItem(KEY, token)));
}

function storage<T>(use: () => T): T | null {
  try {
    return use();
  } catch {
    return null;
  }
}
