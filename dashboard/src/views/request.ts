/** What a workload asks for, as one line. */
import type { Requested } from "../api/types";
import { bytes, cores } from "../state/format";

export function requestText(requested: Requested): string {
  const parts: string[] = [];
  const count = requested.count > 1 ? `${requested.count} × ` : "";
  if (requested.whole) parts.push(`${count}whole accelerator`);
  else if (requested.accelerator_bytes !== null) parts.push(`${count}${bytes(requested.accelerator_bytes)} of an accelerator`);
  parts.push(`${cores(requested.cpu_milli)} cores`, bytes(requested.memory_bytes));
  return parts.join(" · ");
}
