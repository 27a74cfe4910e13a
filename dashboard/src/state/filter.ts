/** What people type to narrow a list: words, `-word` for without, `column:word` for one column. */

export type Texts = Record<string, string>;
interface Term { column: string | null; word: string; without: boolean }

export function parseFilter(text: string): Term[] {
  return text.toLowerCase().split(/\s+/).filter((word) => word !== "" && word !== "-").map((word) => {
    const without = word.startsWith("-");
    const rest = without ? word.slice(1) : word;
    const match = /^([a-z]+):(.+)$/.exec(rest);
    return match ? { column: match[1] as string, word: match[2] as string, without } : { column: null, word: rest, without };
  });
}

/** Return whether a row's texts, already in lower case, agree with all terms. */
export function matches(terms: readonly Term[], texts: Texts): boolean {
  return terms.every(({ column, word, without }) => {
    const own = column === null ? undefined : texts[column];
    const where = own ?? texts[""] ?? "";
    const wanted = own === undefined && column !== null ? `${column}:${word}` : word;
    return where.includes(wanted) !== without;
  });
}

/** Keep the lower-case texts of each row as long as the row itself lives. */
export function textsCache<R extends object>(read: (row: R) => Texts): (row: R) => Texts {
  const known = new WeakMap<R, Texts>();
  return (row) => {
    let texts = known.get(row);
    if (texts === undefined) {
      texts = {};
      for (const [column, text] of Object.entries(read(row))) texts[column] = text.toLowerCase();
      texts[""] = Object.values(texts).join("\n");
      known.set(row, texts);
    }
    return texts;
  };
}
