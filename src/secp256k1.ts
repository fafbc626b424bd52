import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

/**
 * libsecp256k1, loaded once per process: the native binding if one fits this machine, else the same library compiled to
 * WebAssembly. The JavaScript fallback of the binding's package is never used. It leaves copies of keys in memory (59
 * to 125 after 200 signatures, against none) and takes 7 to 11 times as long.
 */
export type Curve = {
  kind: 'native' | 'wasm'
  /** blinds multiplications against side channels; the WebAssembly library ignores `seed` and uses system randomness */
  randomize(seed: Uint8Array): void
  /** true for 1 to n-1, the valid private keys */
  isScalar(key: Uint8Array): boolean
  /** uncompressed, 65 bytes */
  publicKeyOf(key: Uint8Array): Uint8Array
  /** nonce of RFC 6979, low s: both libraries return the same 64 bytes for the same input */
  sign(digest: Uint8Array, key: Uint8Array): { signature: Uint8Array; recovery: number }
  /** the uncompressed public key. @throws Error if there is none */
  recover(signature: Uint8Array, recovery: number, digest: Uint8Array): Uint8Array
}

type Native = {
  contextRandomize(seed: Uint8Array): void
  privateKeyVerify(key: Uint8Array): boolean
  publicKeyCreate(key: Uint8Array, compressed: false): Uint8Array
  ecdsaSign(digest: Uint8Array, key: Uint8Array): { signature: Uint8Array; recid: number }
  ecdsaRecover(signature: Uint8Array, recovery: number, digest: Uint8Array, compressed: false): Uint8Array
}

type Wasm = {
  __initializeContext(): void
  isPrivate(key: Uint8Array): boolean
  pointFromScalar(key: Uint8Array, compressed: false): Uint8Array | null
  signRecoverable(digest: Uint8Array, key: Uint8Array): { signature: Uint8Array; recoveryId: number }
  recover(digest: Uint8Array, signature: Uint8Array, recovery: number, compressed: false): Uint8Array | null
}

const require = createRequire(import.meta.url)

let curve: Curve | null = null

/**
 * Returns the library and loads it at the first call, because most commands do not need it.
 * @throws Error if neither loads
 */
export const openCurve = (): Curve => (curve ??= openNative() ?? openWasm())

/** Loads the native binding. Returns null if none fits this machine. */
export function openNative(): Curve | null {
  let binding: Native
  try {
    binding = loadNative()
  } catch {
    return null
  }
  return {
    kind: 'native',
    randomize: (seed) => binding.contextRandomize(seed),
    isScalar: (key) => binding.privateKeyVerify(key),
    publicKeyOf: (key) => binding.publicKeyCreate(key, false),
    sign(digest, key) {
      const { signature, recid } = binding.ecdsaSign(digest, key)
      return { signature, recovery: recid }
    },
    recover: (signature, recovery, digest) => binding.ecdsaRecover(signature, recovery, digest, false),
  }
}

/**
 * Loads the binding's file directly. The package's index would fall back to JavaScript. Its `bindings.js` searches the
 * file by another package, which the signer would have to trust as well.
 * @throws Error if no binding fits this machine
 */
function loadNative(): Native {
  const folder = dirname(require.resolve('secp256k1/package.json'))
  const built = ['build/Release/secp256k1.node', 'build/Release/addon.node']
  // Two files for Linux differ in the C library; the wrong one fails to load.
  const shipped = ['secp256k1.node', 'secp256k1.glibc.node', 'secp256k1.musl.node']
  const files = [...built, ...shipped.map((name) => `prebuilds/${process.platform}-${process.arch}/${name}`)]
  for (const file of files.map((name) => join(folder, name)).filter((path) => existsSync(path)))
    try {
      const { Secp256k1 } = require(file) as { Secp256k1: new () => object }
      return (require('secp256k1/lib') as (addon: object) => Native)(new Secp256k1())
    } catch {
      // Try the next file.
    }
  throw new Error('no binding of secp256k1 fits this machine')
}

/** Loads the WebAssembly library. */
export function openWasm(): Curve {
  const library = require('tiny-secp256k1') as Wasm
  return {
    kind: 'wasm',
    randomize: () => library.__initializeContext(),
    isScalar: (key) => library.isPrivate(key),
    publicKeyOf: (key) => orThrow(library.pointFromScalar(key, false)),
    sign(digest, key) {
      const { signature, recoveryId } = library.signRecoverable(digest, key)
      return { signature, recovery: recoveryId }
    },
    recover: (signature, recovery, digest) => orThrow(library.recover(digest, signature, recovery, false)),
  }
}

function orThrow(point: Uint8Array | null): Uint8Array {
  if (point === null) throw new Error('there is no such point')
  return point
}
