/** A parsed signed head of the ledger: a checkpoint of a transparency log (C2SP tlog-checkpoint). `at`: milliseconds since 1970. */
export type SignedHead = { origin: string; size: number; root: Buffer; at: number; text: string; signature: Buffer }

const NOTE =
  /^(?<text>(?<origin>[!-*,-~]+)\n(?<size>0|[1-9]\d{0,15})\n(?<root>[A-Za-z0-9+/]{43}=)\nat (?<at>[0-9T:.-]+Z)\n)\n— (?<name>[!-*,-~]+) (?<signature>[A-Za-z0-9+/]{91}=)\n$/

/** Parses a signed head; it does not verify the signature. @returns null if it has another form */
export function readSignedHead(note: string): SignedHead | null {
  const found = NOTE.exec(note)?.groups
  if (found === undefined || found.name !== found.origin) return null
  return {
    origin: found.origin!,
    size: Number(found.size),
    root: Buffer.from(found.root!, 'base64'),
    at: Date.parse(found.at!),
    text: found.text!,
    signature: Buffer.from(found.signature!, 'base64').subarray(4),
  }
}

/** A proof by RFC 9162: hashes in hexadecimal digits. They lead to `head` if its size is `size`. */
export type Proof = {
  size: number
  /** the hash of the requested record */
  record?: string
  proof: string[]
  /** the newest signed head */
  head: string
}
