import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

/**
 * libsecp256k1, once for the process: its native binding where one was built for this machine, else the same library
 * compiled to WebAssembly. Never JavaScript, which the package of the binding would fall back to by itself: that leaves
 * copies of keys in memory (59 to 125 after 200 signatures, against none) and takes 7 to 11 times as long.
 */
export type Curve = {
  kind: 'native' | 'wasm'
  /** blinds multiplications against side channels; the WebAssembly one takes its randomness from the system */
  randomize(seed: Uint8Array): void
  /** true for 1 to n-1, the numbers that are keys */
  isScalar(key: Uint8Array): boolean
  /** uncompressed, 65 bytes */
  publicKeyOf(key: Uint8Array): Uint8Array
  /** with the nonce of RFC 6979 and low s: the same input gives the same 64 bytes from either */
  sign(digest: Uint8Array, key: Uint8Array): { signature: Uint8Array; recovery: number }
  /** the uncompressed public key. @throws Error where there is none */
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

/** Loaded when it is first asked for: most commands need none. @throws Error where neither can be loaded */
export const openCurve = (): Curve => (curve ??= openNative() ?? openWasm())

/** null where no binding was built for this machine */
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
 * The binding itself. The package's own index would fall back to JavaScript, and its `bindings.js` has another package look
 * for the file, which would be one more that the signer believes.
 * @throws Error  where none fits this machine
 */
function loadNative(): Native {
  const folder = dirname(require.resolve('secp256k1/package.json'))
  const built = ['build/Release/secp256k1.node', 'build/Release/addon.node']
  // Of the two for Linux the one for the other C library cannot be loaded.
  const shipped = ['secp256k1.node', 'secp256k1.glibc.node', 'secp256k1.musl.node']
  const files = [...built, ...shipped.map((name) => `prebuilds/${process.platform}-${process.arch}/${name}`)]
  for (const file of files.map((name) => join(folder, name)).filter((path) => existsSync(path)))
    try {
      const { Secp256k1 } = require(file) as { Secp256k1: new () => object }
      return (require('secp256k1/lib') as (addon: object) => Native)(new Secp256k1())
    } catch {
      // The next one may be for this machine.
    }
  throw new Error('no binding of secp256k1 fits this machine')
}

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
