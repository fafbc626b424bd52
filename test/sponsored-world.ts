import { DatabaseSync } from 'node:sqlite'
import { join } from 'node:path'
import { encodeFunctionData } from 'viem'
import { verifyStore } from '../src/signer/programs/verify.ts'
import type { Hex, SignedOperationText, SignOperationRequest, SignOuterRequest } from '../src/signer-wire/wire.ts'
import { artefact } from './gas/stage.ts'
import { ALICE, BOB, CHAIN_ID, makePlace, SOMEWHERE, startSigner } from './kit/signer.ts'

export const HOUSE = 'SPONSOR-HOUSE'
export const RESERVE = 'SPONSOR-RESERVE'
export const SPACE: Hex = `0x${'5b'.repeat(20)}`
export const GAS_LIMIT = 60_000n

export const inSeconds = (seconds: number): number => Math.floor(Date.now() / 1_000) + seconds

/** A request that is good but for what a test changes. */
export const askOperation = (
  from: Hex,
  accessToken: string,
  changes: Partial<SignOperationRequest> = {},
): SignOperationRequest => ({
  intentId: `op_${changes.sequence ?? 0}`,
  ...{ accessToken, chainId: CHAIN_ID, from, space: SPACE, sequence: '0' },
  calls: [{ to: SOMEWHERE, value: '1', data: '0x12345678' }],
  gasLimit: String(GAS_LIMIT),
  deadline: inSeconds(600),
  ...changes,
})

const { abi } = artefact('Dispatcher')

/** By the ABI of the contract, not by the code that packs for it. */
export const dispatchOf = (packed: readonly Hex[], space: Hex = SPACE): Hex =>
  encodeFunctionData({ abi, functionName: 'dispatch', args: [space, `0x${packed.map((each) => each.slice(2)).join('')}`] }) // prettier-ignore

/** A sponsor's transaction with operations that were signed, good but for what a test changes. */
export const askOuter = (
  from: Hex,
  operations: readonly Pick<SignedOperationText, 'packed'>[],
  changes: Partial<SignOuterRequest> = {},
): SignOuterRequest => ({
  intentId: `outer_${changes.nonce ?? 0}`,
  ...{ chainId: CHAIN_ID, from, nonce: 0 },
  data: dispatchOf(operations.map(({ packed }) => packed)),
  ...{ gas: '300000', maxFeePerGas: '1000', maxPriorityFeePerGas: '100', authorizations: [], kind: 'send' },
  ...changes,
})

type Row = Record<string, string | number | null | Uint8Array>

/** A running signer of a development installation with a sponsor and two people. */
export async function sponsored(
  t: { after: (end: () => Promise<void>) => void },
  more: Record<string, string> = {},
  flags?: string[],
) {
  const place = await makePlace()
  const start = (changes: Record<string, string> = {}) =>
    startSigner({ env: { ...place.env, ...more, ...changes } }, flags === undefined ? {} : { flags })
  const signer = await start()
  const running = new Set([signer])
  t.after(async () => {
    for (const each of running) await each.end('SIGKILL')
    place.clear()
  })
  const [house, alice, bob] = await Promise.all([HOUSE, ALICE, BOB].map((userId) => signer.createAccount({ userId })))
  const tokens = { alice: await place.token(ALICE), bob: await place.token(BOB) }
  const addresses = { house: house!.address, alice: alice!.address, bob: bob!.address }
  const again = async (changes: Record<string, string> = {}) => {
    const next = await start(changes)
    running.add(next)
    return next
  }
  // The same whenever it is asked for again.
  const deadline = inSeconds(600)
  const folder = place.env.SIGNER_DIR!
  const rows = (): Row[] => {
    const db = new DatabaseSync(join(folder, 'signer.sqlite'), { readOnly: true })
    try {
      return db.prepare(`SELECT * FROM ledger ORDER BY seq`).all() as Row[]
    } finally {
      db.close()
    }
  }
  return {
    ...{ place, signer, again, folder, rows, tokens, ...addresses },
    ofAlice: (changes: Partial<SignOperationRequest> = {}) =>
      askOperation(addresses.alice, tokens.alice, { deadline, ...changes }),
    ofBob: (changes: Partial<SignOperationRequest> = {}) =>
      askOperation(addresses.bob, tokens.bob, { deadline, ...changes }),
    outer: (operations: readonly Pick<SignedOperationText, 'packed'>[], changes: Partial<SignOuterRequest> = {}) =>
      askOuter(addresses.house, operations, changes),
    problems: () => verifyStore(folder).problems,
  }
}
