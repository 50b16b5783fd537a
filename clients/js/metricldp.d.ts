/** Where reports are stored: anything with these two. What one tab writes, another must read at once. */
export interface Store {
  getItem(key: string): string | null | Promise<string | null>;
  setItem(key: string, value: string): void | Promise<void>;
}

export interface Options {
  /** The fingerprint of the survey, the SHA-256 of its manifest: 64 lower-case hexadecimal digits. */
  fingerprint: string;
  /** By default a database of the page's origin (IndexedDB). */
  store?: Store;
  /** The address of the collector. Without it, reports are stored and wait. */
  send?: string;
  /** The largest epsilon of all reports to all surveys in the store together. */
  limit?: number;
}

export type Value = string | number | bigint | boolean | null | undefined;

export interface Status {
  /** 32 hexadecimal digits; absent if there is no report yet. */
  id?: string;
  state?: "waiting" | "sent" | "rejected";
  /** Why the report was rejected for good. */
  reason?: string;
}

/** The proof for one field, from the integers that random words are compared with. */
export interface Proof {
  name: string;
  /** The output distribution. */
  kind: string;
  /** The exact privacy loss of the tightest pair of positions, and what the metric allows for it. */
  loss: number;
  allowed: number;
  holds: boolean;
}

export interface Certificate {
  holds: boolean;
  proofs: Proof[];
}

export interface Entry {
  attributes: string[];
  reports: number;
  /** Of all reports together. */
  epsilon: number;
}

export interface Survey {
  readonly fingerprint: string;
  /** The guarantee in sentences: of each attribute and group, and of all attributes together. */
  guarantee(): string[];
  /** The proof of the guarantee. It ran on this device when the survey was opened, and holds. */
  certify(): Certificate;
  /** Randomizes once, stores the bytes, sends them. A second call sends the same bytes, or nothing. */
  report(
    response: Record<string, Value>,
    options?: {
      /** A new name makes a new report, which adds to the privacy loss. */
      wave?: string;
      /** An invite or a token, in hexadecimal digits, as `metricldp collector token invites` writes them. */
      invite?: string;
      /** Numbers outside of their domain move to the nearest end. */
      clip?: boolean;
    },
  ): Promise<Status>;
  /** Sends what waits. */
  flush(): Promise<void>;
  /** The state of a report, without sending. */
  status(wave?: string): Promise<Status>;
  /** The privacy accountant of this device: reports and their epsilon, by the fingerprint of the survey. */
  accountant(): Promise<{ surveys: Record<string, Entry>; epsilon: number }>;
}

/** The base class of all errors that this package raises on purpose. */
export class MetricLdpError extends Error {
  constructor(reason: string, message: string);
  /** One word: https, limit, invite, or a word of a class below. */
  reason: string;
}

/** The reason is fingerprint (another manifest), manifest (malformed or not supported) or guarantee (does not hold). */
export class InvalidManifestError extends MetricLdpError {}

/** The reason is missing, kind, whole, range, name or memory; nothing was randomized. */
export class InvalidValueError extends MetricLdpError {
  constructor(reason: string, attribute: string);
  attribute: string;
}

/** A report is outside of its field; no report is sent. */
export class CertificateError extends MetricLdpError {}

/** Opens a survey by its manifest: the text, or its address. */
export function open(manifest: string, options: Options): Promise<Survey>;

/** For tests only: reports from given words have no privacy. */
export const forTestsOnly: Record<string, unknown>;
