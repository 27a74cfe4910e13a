/** What a workload asks for, as one line. */
import type { Requested } from "../api/types";
import { bytes, cores } from "../state/format";

export function requestText(requested: Requested): string {
  const parts: string[] = [];
  const count = requested.count > 1 ? `${requested.count} × ` : "";
  if (requested.whole) parts.push(requested.count > 1 ? `${requested.count} whole accelerators` : "a whole accelerator");
  else if (requested.accelerator_bytes !== null) parts.push(`${count}${bytes(requested.accelerator_bytes)} of an accelerator`);
  if (requested.cpu_milli > 0) parts.push(requested.cpu_milli === 1000 ? "1 core" : `${cores(requested.cpu_milli)} cores`);
  if (requested.memory_bytes > 0) parts.push(`${bytes(requested.memory_bytes)} of RAM`);
  return parts.length > 0 ? parts.join(" · ") : "nothing";
}
