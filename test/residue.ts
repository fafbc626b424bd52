/**
 * What is left in a process's memory of a key that it signed with 200 times and wiped: read from outside, byte by
 * byte, of all that it may write to. Linux only, and only for who may look into the process: its parent, or root.
 */
import { spawn } from 'node:child_process'
import { createHash, createHmac, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync, readSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const SIGNING = fileURLToPath(new URL('residue-signing.ts', import.meta.url))
const WITHOUT_NATIVE = fileURLToPath(new URL('without-native.mjs', import.meta.url))
const CHUNK = 1 << 20

/**
 * @param how.mistake  keeps one copy of the key, so that it is known that a copy would be found
 * @returns places in memory that hold a half of the key or of a signature's nonce, in either order of bytes
 */
export async function residueOf(how: {
  curve: 'native' | 'wasm'
  mistake?: boolean
}): Promise<{ key: number; nonce: number }> {
  const key = randomBytes(32)
  const child = spawn(
    process.execPath,
    [...(how.curve === 'wasm' ? ['--import', WITHOUT_NATIVE] : []), SIGNING, how.curve, String(how.mistake ?? false)],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  )
  try {
    child.stdin.write(key)
    await once(child.stdout, 'data')
    // The last one: earlier ones would lie where this one was written over.
    const nonce = nonceOf(key, digestOf(199))
    return { key: count(child.pid!, halves(key)), nonce: count(child.pid!, halves(nonce)) }
  } finally {
    child.kill('SIGKILL')
  }
}

export const digestOf = (index: number): Buffer => createHash('sha256').update(`digest ${index}`).digest()

/** Numbers lie in memory as their bytes, or as words of the machine, lowest first. */
function halves(secret: Buffer): Buffer[] {
  const turned = Buffer.from(secret.toReversed())
  return [secret, turned].flatMap((bytes) => [bytes.subarray(0, 16), bytes.subarray(16)])
}

function count(pid: number, needles: Buffer[]): number {
  const memory = openSync(`/proc/${pid}/mem`, 'r')
  let found = 0
  try {
    for (const [start, end] of writable(pid))
      for (let at = start; at < end; at += CHUNK) {
        // A needle may lie across the border of two.
        const chunk = Buffer.alloc(Math.min(CHUNK + 15, end - at))
        const length = tryRead(memory, chunk, at)
        for (const needle of needles)
          for (let place = chunk.indexOf(needle); place !== -1 && place < Math.min(length, CHUNK); place = chunk.indexOf(needle, place + 1)) found++ // prettier-ignore
      }
  } finally {
    closeSync(memory)
  }
  return found
}

function writable(pid: number): [start: number, end: number][] {
  return readFileSync(`/proc/${pid}/maps`, 'utf8')
    .split('\n')
    .filter((line) => /^\S+ .w/.test(line) && !/\[v(var|syscall)/.test(line))
    .map(
      (line) =>
        line
          .split(' ')[0]!
          .split('-')
          .map((half) => Number.parseInt(half, 16)) as [number, number],
    )
}

/** 0 for what was never touched or is kept from readers. */
function tryRead(memory: number, into: Buffer, at: number): number {
  try {
    return readSync(memory, into, 0, into.length, at)
  } catch {
    return 0
  }
}

/** The nonce that RFC 6979 (section 3.2) derives with SHA-256 from a key and a digest below the group's order. */
export function nonceOf(key: Uint8Array, digest: Uint8Array): Buffer {
  const hmac = (by: Uint8Array, ...parts: Uint8Array[]) =>
    createHmac('sha256', by).update(Buffer.concat(parts)).digest()
  let v: Buffer = Buffer.alloc(32, 1)
  let k: Buffer = Buffer.alloc(32)
  for (const mark of [0, 1]) {
    k = hmac(k, v, Buffer.from([mark]), key, digest)
    v = hmac(k, v)
  }
  return hmac(k, v)
}
