/** Asks before anything is changed. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api/client";
import type { Action } from "../api/types";
import { useAnnounce } from "./announce";
import { useLive, useSelect } from "./context";
import { say } from "./fetched";

interface Props { action: Action; body: Record<string, string>; label: string; children: ComponentChildren }

/** A button that acts after a confirmation; nothing where the viewer may not do it. */
export function ActionButton({ action, body, label, children }: Props) {
  const allowed = useSelect((live) => live.about?.viewer.actions.includes(action) ?? false);
  const [asked, setAsked] = useState(false);
  if (!allowed) return null;
  return (
    <>
      <button type="button" class="action" onClick={() => setAsked(true)}>{label}…</button>
      {asked && (
        <Confirm action={action} body={body} label={label} onClose={() => setAsked(false)}>{children}</Confirm>
      )}
    </>
  );
}

function Confirm({ action, body, label, children, onClose }: Props & { onClose(): void }) {
  const live = useLive();
  const announce = useAnnounce();
  const dialog = useRef<HTMLDialogElement>(null);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => dialog.current?.showModal(), []);
  const act = async () => {
    setBusy(true);
    try {
      announce(await live.client.post(`actions/${action}`, body));
      dialog.current?.close();
    } catch (error) {
      setProblem(error instanceof ApiError ? say(error) : String(error));
      setBusy(false);
    }
  };
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="confirm-title">
      <h2 id="confirm-title">{label}?</h2>
      <div>{children}</div>
      {problem !== "" && <p class="problem" role="alert">{problem}</p>}
      <div class="buttons">
        <button type="button" onClick={() => dialog.current?.close()}>Keep as it is</button>
        <button type="button" class="action" disabled={busy} onClick={() => void act()}>{label}</button>
      </div>
    </dialog>
  );
}
