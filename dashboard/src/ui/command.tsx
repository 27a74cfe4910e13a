/** The command that gives the same answer in a terminal. */
import { useState } from "preact/hooks";
import { useAnnounce } from "./announce";

export function Command({ command }: { command: string }) {
  const [copied, setCopied] = useState(false);
  const announce = useAnnounce();
  if (command === "") return null;
  const copy = async () => {
    const done = await copyText(command);
    setCopied(done);
    announce(done ? `Copied: ${command}` : "The browser does not let the page copy; select the command instead.");
    setTimeout(() => setCopied(false), 2000);
  };
  return (
    <div class="command">
      <span aria-hidden="true">$</span>
      <code tabIndex={0} role="note" aria-label={`The same answer in a terminal: ${command}`}>{command}</code>
      <button type="button" onClick={() => void copy()} aria-label={`Copy the command ${command}`}>
        {copied ? "Copied" : "Copy"}
      </button>
    </div>
  );
}

/** Copy also where the page is served over plain HTTP, where browsers offer no clipboard. */
async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "offscreen";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
