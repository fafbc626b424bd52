import { readSync } from 'node:fs'
import { addressOf, publicKeyOf, signDigest, startCurve } from '../src/signer/keys/curve.ts'
import { digestOf } from './residue.ts'

/** Takes a key from standard input into one buffer, signs with it as the signer does, wipes it, says so and waits. */
const [, , wanted, mistake] = process.argv
const kind = startCurve(Buffer.alloc(32, 7))
if (kind !== wanted) throw new Error(`this is ${kind}`)
// Whole pages of its own: what is read is written there by the kernel and nowhere else.
const key = Buffer.allocUnsafeSlow(32)
readSync(0, key, 0, 32, null)
const address = addressOf(publicKeyOf(key))
for (let index = 0; index < 200; index++) signDigest(digestOf(index), key, address)
const kept = mistake === 'true' ? Buffer.from(key) : null
key.fill(0)
process.stdout.write('done\n')
setInterval(() => kept, 1_000_000)
