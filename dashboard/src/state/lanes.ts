/** An accelerator's memory as three bars of the same scale: requested, predicted, measured. Pure. */
import type { DeviceRow, Share } from "../api/types";

export interface Piece { name: string; start: number; width: number; bytes: number; over: boolean }
export interface Lanes { scale: number; requested: Piece[]; predicted: Piece[]; measured: Piece[]; capacity: number }

/** Return the pieces as shares of the scale: the memory, or more where more is requested or used. */
export function lanesOf(device: DeviceRow): Lanes {
  const { shares } = device;
  const memory = device.memory_bytes ?? 0;
  const whole = (bytes: number, isWhole: boolean) => (isWhole && memory > 0 ? memory : bytes);
  const requested = shares.map((share) => whole(share.requested_bytes, share.whole));
  const measured = shares.map((share) => share.measured_bytes ?? 0);
  const predicted = shares.map((share) => share.predicted_bytes ?? 0);
  const known = sum(measured);
  const rest = Math.max(0, (device.memory_used_bytes ?? 0) - known);
  const scale = Math.max(memory, sum(requested), sum(predicted), known + rest, 1);
  const names = shares.map(nameOf);
  const over = shares.map((share, index) => !share.whole && (measured[index] ?? 0) > (requested[index] ?? 0));
  return {
    scale,
    requested: pieces(requested, names, scale),
    predicted: pieces(predicted, names, scale),
    measured: pieces([...measured, rest], [...names, "not of a workload"], scale, over),
    capacity: memory / scale,
  };
}

/** Return a holder's name; the server calls one that the viewer may not see "other". */
export function nameOf(share: Share): string {
  return share.holder === null && (share.name === "" || share.name === "other") ? "another tenant" : share.name;
}

function pieces(values: number[], names: string[], scale: number, over: boolean[] = []): Piece[] {
  let start = 0;
  return values.flatMap((bytes, index) => {
    const piece = { name: names[index] ?? "", start, width: bytes / scale, bytes, over: over[index] ?? false };
    start += piece.width;
    return bytes > 0 ? [piece] : [];
  });
}

function sum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
