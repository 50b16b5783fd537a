// Errors of the device: each message names the place, and shows no response.

/** The base class of all errors that this package raises on purpose; `reason` is one word. */
export class MetricLdpError extends Error {
  constructor(reason, message) {
    super(message);
    this.reason = reason;
  }
}

/** A manifest is malformed, too large, another one, or does not keep its guarantee. */
export class InvalidManifestError extends MetricLdpError {}

/** A report is outside of its field; no report is sent. */
export class CertificateError extends MetricLdpError {}

/**
 * A response is missing, of the wrong type or outside its domain; nothing was randomized.
 *
 * If one value is invalid, `attribute` locates it, and `reason` is one of missing, kind, whole,
 * range and name. The message does not contain the value.
 */
export class InvalidValueError extends MetricLdpError {
  constructor(reason, attribute) {
    super(reason, `${attribute}: ${reason}`);
    this.attribute = attribute;
  }
}
