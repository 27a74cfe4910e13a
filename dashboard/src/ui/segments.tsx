/** A choice among a few views of the same list. */
import { useState } from "preact/hooks";

interface Props { label: string; value: string; options: readonly string[]; onChange(value: string): void }

export function useSegment(first: string): [string, (value: string) => void] {
  return useState(first);
}

export function Segments({ label, value, options, onChange }: Props) {
  return (
    <div class="segments" role="group" aria-label={label}>
      {options.map((option) => (
        <button key={option} type="button" aria-pressed={option === value} onClick={() => onChange(option)}>{option}</button>
      ))}
    </div>
  );
}

export function Choice({ label, value, options, onChange }: Props) {
  return (
    <label class="choice">
      <span>{label}</span>
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {options.map((option) => <option key={option} value={option}>{option}</option>)}
      </select>
    </label>
  );
}
