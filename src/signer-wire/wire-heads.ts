/** Where the ledger ended, signed, as it was read: a checkpoint of a transparency log (C2SP tlog-checkpoint). `at`: milliseconds since 1970. */
export type SignedHead = { origin: string; size: number; root: Buffer; at: number; text: string; signature: Buffer }

const NOTE =
  /^(?<text>(?<origin>[!-*,-~]+)\n(?<size>0|[1-9]\d{0,15})\n(?<root>[A-Za-z0-9+/]{43}=)\nat (?<at>[0-9T:.-]+Z)\n)\n— (?<name>[!-*,-~]+) (?<signature>[A-Za-z0-9+/]{91}=)\n$/

/** @returns null for what is not such a head; whose it is, only its signature says */
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

/** Hashes of RFC 9162 in hexadecimal digits, and the head that they lead to where `size` is that of the head. */
export type Proof = {
  size: number
  /** the record that was asked for */
  record?: string
  proof: string[]
  /** the newest signed head */
  head: string
}
