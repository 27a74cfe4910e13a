/** Who holds an accelerator, as a table: requested, predicted and measured. */
import type { DeviceRow } from "../api/types";
import { bytes } from "../state/format";
import { nameOf } from "../state/lanes";
import { href } from "../state/route";

export function Holders({ device }: { device: DeviceRow }) {
  if (device.shares.length === 0) return <p class="quiet">No workload holds a part of it.</p>;
  return (
    <table class="small">
      <thead>
        <tr>
          <th scope="col">Workload</th>
          <th scope="col" class="figures">Requested</th>
          <th scope="col" class="figures">Predicted</th>
          <th scope="col" class="figures">Measured</th>
        </tr>
      </thead>
      <tbody>
        {device.shares.map((share, index) => (
          <tr key={share.holder ?? index}>
            <td>{share.holder === null ? nameOf(share) : <a href={href("queue", share.holder)}>{share.name}</a>}</td>
            <td class="figures">{share.whole ? "whole" : bytes(share.requested_bytes)}</td>
            <td class="figures">{bytes(share.predicted_bytes)}</td>
            <td class={`figures ${(share.measured_bytes ?? 0) > share.requested_bytes && !share.whole ? "over" : ""}`}>
              {bytes(share.measured_bytes)}
            </td>
          </tr>
        ))}
      </tbody>
      <tfoot>
        <tr>
          <th scope="row">All</th>
          <td class="figures">{bytes(device.requested_bytes)}</td>
          <td class="figures">{bytes(device.predicted_bytes)}</td>
          <td class="figures">{bytes(device.memory_used_bytes)}</td>
        </tr>
      </tfoot>
    </table>
  );
}
