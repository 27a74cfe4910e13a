/** The server's clock, told by the browser's steady one: a browser that is an hour off shows the same ages. */

export class ServerClock {
  private offset: number;

  /** `steady` counts seconds from any beginning and never jumps. */
  constructor(private readonly steady: () => number = () => performance.now() / 1000) {
    this.offset = Date.now() / 1000 - steady();
  }

  /** The server says that it is `now`. */
  set(now: number): void {
    this.offset = now - this.steady();
  }

  now(): number {
    return this.steady() + this.offset;
  }
}
