import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import type { OperationCall } from '../../src/gas/operation.ts'
import { DELEGATES, type DelegateName, type Hex } from '../../src/ids.ts'
import { randomOf } from '../random.ts'
import type { SignedOperation } from './dispatch.ts'
import { evms } from './evm.ts'
import { failed, textError } from './scenario.ts'
import { hexOf, openStage, said, type Account, type Stage } from './stage.ts'

/**
 * Batches as a seed decides, against a model that is told nothing but what was sent: each outcome, each balance and each id has to be what it
 * says. GAS_ROUNDS=2000 GAS_SEED=7 node --test test/gas/random.test.ts
 */
const ROUNDS = Number(process.env.GAS_ROUNDS ?? 12)
const SEED = Number(process.env.GAS_SEED ?? 20_260)
const ACCOUNTS = 6
const LIFE_SECONDS = 10_000_000

type Step = { call: OperationCall } & (
  | { does: 'ping' }
  | { does: 'fail'; reason: Hex }
  | { does: 'transfer'; to: number; amount: bigint }
  | { does: 'pay'; to: number; wei: bigint }
)
type Planned = { signed: SignedOperation; from: number; steps: Step[]; flaw: null | 'Expired' | 'WrongSignature' }
type Model = { tokens: bigint[]; wei: bigint[]; pings: bigint; used: Set<bigint> }

for (const [name, delegate] of Object.keys(evms).flatMap((name) => DELEGATES.map((one) => [name, one] as const)))
  suite(`batches at random for ${delegate} on ${name}`, () => {
    test(`${ROUNDS} of them do what was signed, once, or nothing (seed ${SEED})`, async (t) => {
      const evm = await evms[name as keyof typeof evms]()
      t.after(() => evm.close())
      const stage = await openStage(evm, undefined, delegate)
      const below = randomOf(SEED)
      const delegated = await stage.users('random', ACCOUNTS - 1)
      const accounts = [...delegated, stage.stranger]
      const model: Model = { tokens: [], wei: [], pings: 0n, used: new Set() }
      for (const account of delegated) {
        await stage.mint(account, 100n)
        await stage.give(account, 100n)
      }
      model.tokens = [...delegated.map(() => 100n), 0n]
      model.wei = [...delegated.map(() => 100n), await stage.balanceOf(stage.stranger)]
      const known: Planned[] = []
      let fees = 0n
      const before = (await stage.balanceOf(stage.sponsor)) + (await stage.balanceOf(stage.otherSponsor))

      for (let round = 0; round < ROUNDS; round++) {
        const from = below(2) === 0 ? stage.sponsor : stage.otherSponsor
        if (below(6) === 0 && known.length > 0) {
          const some = Array.from({ length: 1 + below(3) }, () => known[below(known.length)]!.signed.operation.sequence)
          const expected = some.map((sequence) => (use(model, sequence) ? 'Cancelled' : 'Skipped'))
          const data = stage.encode('Dispatcher', 'cancel', [stage.admin.hex, some])
          const sent = await stage.send(from, stage.dispatcher, data)
          fees += sent.fee
          assert.deepEqual(sent.outcomes.map(said), expected, `round ${round}`)
          continue
        }
        const batch: Planned[] = []
        for (let count = 1 + below(8); count > 0; count--) {
          const isOld = known.length > 0 && below(4) === 0
          batch.push(isOld ? known[below(known.length)]! : await plan(stage, accounts, below))
        }
        known.push(...batch)
        // Sent later, or never: the next rounds meet it again.
        if (below(8) === 0) continue
        const expected = batch.map((planned) => expect(model, planned, delegate))
        const sent = await stage.dispatch(batch.map(({ signed }) => signed), { from, gas: 7_000_000 }) // prettier-ignore
        fees += sent.fee
        assert.deepEqual(sent.outcomes.map(said), expected, `round ${round}`)
        assert.deepEqual(
          sent.outcomes.map(({ account }) => account),
          batch.map(({ from: index }) => accounts[index]!.hex),
        )
      }

      for (const [index, account] of accounts.entries()) {
        assert.equal(await stage.held(account), model.tokens[index], `tokens of account ${index}`)
        assert.equal(await stage.balanceOf(account), model.wei[index], `coins of account ${index}`)
      }
      assert.equal(await stage.pings(), model.pings)
      for (const { signed } of known)
        assert.equal(await stage.isUsed(signed), model.used.has(signed.operation.sequence))
      const after = (await stage.balanceOf(stage.sponsor)) + (await stage.balanceOf(stage.otherSponsor))
      assert.equal(before - after, fees, 'sponsors lost their fees and nothing else')
      assert.equal(await stage.balanceOf({ hex: hexOf(stage.dispatcher) }), 0n)
    })
  })

const CALIBUR_WORDS = { Expired: 'SignatureExpired', WrongSignature: 'InvalidSignature' } as const

function use({ used }: Model, sequence: bigint): boolean {
  if (used.has(sequence)) return false
  used.add(sequence)
  return true
}

/** What has to become of it now; the model goes along. */
function expect(model: Model, { signed, from, steps, flaw }: Planned, delegate: DelegateName): string {
  if (!use(model, signed.operation.sequence)) return 'Skipped'
  if (from === ACCOUNTS - 1) return 'Failed NotDelegated'
  if (flaw !== null) return `Failed ${delegate === 'calibur' ? CALIBUR_WORDS[flaw] : flaw}`
  const { tokens, wei } = model
  const kept = { tokens: [...tokens], wei: [...wei], pings: model.pings }
  for (const [index, step] of steps.entries()) {
    const reason = take(model, from, step)
    if (reason === null) continue
    Object.assign(model, kept)
    return delegate === 'calibur' ? `Failed CallFailed ${reason}` : failed(index, reason)
  }
  return 'Done'
}

/** @returns with what it fails; null where it is done */
function take(model: Model, from: number, step: Step): Hex | null {
  const { tokens, wei } = model
  if (step.does === 'ping') model.pings++
  if (step.does === 'fail') return step.reason
  if (step.does === 'transfer') {
    // The sender, what it has, and what it would need: 100 tokens are in one byte.
    if (tokens[from]! < step.amount) return insufficient(step.call, tokens[from]!, step.amount)
    tokens[from] = tokens[from]! - step.amount
    tokens[step.to] = tokens[step.to]! + step.amount
  }
  if (step.does === 'pay') {
    if (wei[from]! < step.wei) return '0x'
    wei[from] = wei[from]! - step.wei
    wei[step.to] = wei[step.to]! + step.wei
  }
  return null
}

const senders = new Map<OperationCall, Account>()
function insufficient(call: OperationCall, held: bigint, needed: bigint): Hex {
  const words = [senders.get(call)!.address.toString('hex'), held.toString(16), needed.toString(16)]
  return `0xe450d38c${words.map((word) => word.padStart(64, '0')).join('')}`
}

async function plan(stage: Stage, accounts: Account[], below: (limit: number) => number): Promise<Planned> {
  const from = below(ACCOUNTS)
  const steps = Array.from({ length: 1 + below(4) }, (): Step => {
    const to = below(ACCOUNTS)
    const [kind, amount] = [below(8), BigInt(below(60))]
    if (kind === 0) return { does: 'fail', reason: textError('as planned'), call: stage.on('failWith', [textError('as planned')]) } // prettier-ignore
    if (kind <= 2) return { does: 'ping', call: stage.on('ping') }
    if (kind <= 4)
      return { does: 'pay', to, wei: amount, call: stage.call(accounts[to]!.address, Buffer.alloc(0), amount) }
    const call = stage.transfer(accounts[to]!, amount)
    senders.set(call, accounts[from]!)
    return { does: 'transfer', to, amount, call }
  })
  const flaw = ([null, null, null, null, 'Expired', 'WrongSignature'] as const)[below(6)]!
  const deadline = (await stage.now()) + (flaw === 'Expired' ? -1 : LIFE_SECONDS)
  const signed = await stage.operation(accounts[from]!, steps.map(({ call }) => call), { deadline, gasLimit: 600_000 }) // prettier-ignore
  if (flaw === 'WrongSignature') signed.operation = { ...signed.operation, gasLimit: 600_000 - 1 - below(50_000) }
  return { signed, from, steps, flaw }
}
