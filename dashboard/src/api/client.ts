/** Requests to the server: the token in a header, never in an address; every failure as one kind of error. */
import type { Fault } from "./types";

/** What the server said is wrong, or that it could not be reached (status 0). */
export class ApiError extends Error {
  constructor(readonly status: number, readonly fault: Fault) {
    super(fault.what);
  }
}

export type Fetch = (input: string, init?: RequestInit) => Promise<Response>;

/** One server, as one viewer. */
export class Client {
  constructor(private token: string | null, private readonly fetcher: Fetch = (input, init) => fetch(input, init)) {}

  setToken(token: string | null): void {
    this.token = token;
  }

  headers(extra: Record<string, string> = {}): Record<string, string> {
    return this.token === null ? extra : { ...extra, Authorization: `Bearer ${this.token}` };
  }

  /** Open a response whose body the caller reads; throw ApiError for anything but 2xx. */
  async open(path: string, init: RequestInit & { extra?: Record<string, string> } = {}): Promise<Response> {
    const { extra, ...rest } = init;
    let response: Response;
    try {
      response = await this.fetcher(`/api/v1/${path}`, { cache: "no-store", ...rest, headers: this.headers(extra) });
    } catch (error) {
      if (rest.signal?.aborted) throw error;
      throw new ApiError(0, { what: "the server does not answer", where: location.host, next: "it is asked again by itself" });
    }
    if (response.ok) return response;
    throw new ApiError(response.status, await readFault(response));
  }

  async get<T>(path: string, signal?: AbortSignal): Promise<T> {
    const init = signal === undefined ? {} : { signal };
    return (await (await this.open(path, init)).json()) as T;
  }

  /** Ask for a change; return what the server says was done. */
  async post(path: string, body: Record<string, string>): Promise<string> {
    const extra = { "Content-Type": "application/json" };
    const response = await this.open(path, { method: "POST", body: JSON.stringify(body), extra });
    return ((await response.json()) as { done: string }).done;
  }
}

async function readFault(response: Response): Promise<Fault> {
  try {
    const body = (await response.json()) as { error?: Partial<Fault> };
    const { what = response.statusText, where = "", next = "" } = body.error ?? {};
    return { what, where, next };
  } catch {
    return { what: `the server answers ${response.status}`, where: response.url, next: "" };
  }
}

/** Return a key as part of a path; its slash is part of the key. */
export function inPath(key: string): string {
  return encodeURIComponent(key);
}
