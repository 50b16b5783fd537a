/** Where answers are kept: anything with these two. What one tab writes, another must read at once. */
export interface Store {
  getItem(key: string): string | null | Promise<string | null>;
  setItem(key: string, value: string): void | Promise<void>;
}

export interface Options {
  /** The SHA-256 of the manifest, as `metricldp collector manifest` printed it: 64 lower-case digits. */
  pin: string;
  /** Left out: a database of the page's own (IndexedDB). */
  store?: Store;
  /** The address of the collector. Left out, answers are kept and wait. */
  send?: string;
  /** The most epsilon that may be spent by all surveys in the store together. */
  limit?: number;
}

export type Value = string | number | boolean | null | undefined;

export interface Status {
  /** 32 hexadecimal digits; nothing where there is no answer yet. */
  id?: string;
  state?: "waiting" | "sent" | "refused";
  /** Why it was refused for good. */
  reason?: string;
}

export interface Entry {
  names: string[];
  reports: number;
  /** Epsilon, of all reports together. */
  spent: number;
}

export interface Survey {
  readonly fingerprint: string;
  /** What is promised, a line for each question. */
  promise(): string;
  /** The promise proved on this device, from the integers that coins are compared with. */
  certify(): { holds: boolean; lines: string[] };
  /** Blurs once, keeps the bytes, sends them. Called again it sends the same bytes, or nothing. */
  answer(
    person: Record<string, Value>,
    options?: {
      /** A new name asks for a new report: it spends again. */
      wave?: string;
      /** An invite or a token, in hexadecimal digits, as `metricldp collector token invites` writes them. */
      invite?: string;
      /** Numbers outside count as the nearest one inside. */
      clip?: boolean;
    },
  ): Promise<Status>;
  /** Sends what waits. */
  flush(): Promise<void>;
  status(wave?: string): Promise<Status>;
  /** What this device has told so far, by the fingerprint of the survey. */
  ledger(): Promise<{ surveys: Record<string, Entry>; spent: number }>;
}

/** Thrown values have a `reason`: pin, version, law, length, missing, kind, whole, name, range, ... */
export interface Refused extends Error {
  reason: string;
}

/** Opens a survey by its client manifest: the text, or its address. */
export function open(manifest: string, options: Options): Promise<Survey>;

/** For tests only: reports from coins that are written down have no privacy. */
export const forTestsOnly: Record<string, unknown>;
