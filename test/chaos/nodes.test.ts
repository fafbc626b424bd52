// tier: all, because it kills processes and nodes under load
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, suite, test } from 'node:test'
import { randomOf } from '../random.ts'
import { playCell } from './nodes-cell.ts'
import { FAULTS, type Fault } from './nodes-faults.ts'
import { PROFILES, type Profile } from './nodes-profiles.ts'
import { refused, said } from '../nodes/proxy.ts'
import { stageOf, type Stage } from './nodes-stage.ts'
import { BEGIN, END, keyOf } from './nodes-table.ts'

/** So many faults on so many nodes of the table are played here; all of them by `npm run prove -- nodes`. */
const NODES = 3
const OF_EACH = 6
const SEED = 5

function chosen(): { profile: Profile; faults: Fault[] }[] {
  const below = randomOf(SEED)
  const take = <T>(list: T[]): T => list.splice(below(list.length), 1)[0]!
  const left = [...PROFILES]
  return Array.from({ length: NODES }, () => {
    const profile = take(left)
    const able = FAULTS.filter(({ not, halts }) => halts !== true && (not?.(profile) ?? null) === null)
    return { profile, faults: Array.from({ length: OF_EACH }, () => take(able)) }
  })
}

for (const { profile, faults } of chosen())
  suite(`whatever happens to a node: ${profile.name}`, () => {
    let stage: Stage
    before(async () => {
      stage = await stageOf(profile, faults.length)
    })
    after(() => stage?.close())
    for (const fault of faults)
      test(`nothing is lost, doubled or wrong: ${fault.name}`, async () => {
        assert.deepEqual((await playCell(stage, fault, Math.random)).problems, [])
      })
  })

suite('the judge of the nodes', () => {
  const [geth] = PROFILES
  let stage: Stage
  before(async () => {
    stage = await stageOf(geth!, 4)
  })
  after(() => stage?.close())
  // Readers ask for nothing but balances.
  const judged = async (start: Fault['start'], sees?: RegExp): Promise<string> =>
    (
      await playCell(stage, { name: 'sabotage', start }, () => 0, {
        settleMs: 4_000,
        ...(sees === undefined ? {} : { sees }),
      })
    ).problems.join('\n')

  test('sees a balance that never was', async () => {
    const start: Fault['start'] = (node) => {
      node.onCall = async (call, next) =>
        call.method === 'eth_getBalance' ? said(call, '0xffffffffffffffff') : next(call)
    }
    assert.match(await judged(start, /a balance that never was/), /a balance that never was/)
  })

  test('sees a refusal that no failing node explains', async () => {
    const start: Fault['start'] = (node) => {
      node.onCall = async (call, next) =>
        call.method === 'eth_call' || call.method === 'eth_estimateGas'
          ? refused(call, [3, 'execution reverted'], '0x')
          : next(call)
    }
    assert.match(await judged(start, /execution_reverted/), /execution_reverted/)
  })

  test('sees a transaction of the account that nobody asked for', async () => {
    const start: Fault['start'] = async (node) => {
      const { from } = [...node.pool.offered.values()].at(-1)!
      await node.anvil.rpc('anvil_impersonateAccount', from)
      await node.anvil.rpc('eth_sendTransaction', { from, to: from, value: '0x1', gas: '0x5208', nonce: '0x1' })
      await node.mine(2)
    }
    assert.match(await judged(start), /nonces used for|became FAILED|not settled/)
  })
})

test('docs/evidence/proof.md has a clean cell, or a reason, for each node and fault', () => {
  const page = readFileSync(new URL('../../docs/evidence/proof.md', import.meta.url), 'utf8')
  const written = page.slice(page.indexOf(BEGIN), page.indexOf(END)).split('\n')
  const header = written.find((line) => line.startsWith('| | '))!
  const columns = header
    .split('|')
    .slice(2, -1)
    .map((name) => name.trim())
  assert.deepEqual(
    columns,
    PROFILES.map(({ name }) => name),
  )
  let played = 0
  for (const fault of FAULTS) {
    const row = written.find((line) => line.startsWith(`| ${fault.name} |`))
    assert.ok(row !== undefined, `no row for ${fault.name}`)
    for (const [index, cell] of row.split('|').slice(2, -1).entries()) {
      const profile = PROFILES[index]!
      const isPlayed = (fault.not?.(profile) ?? null) === null
      assert.match(cell.trim(), isPlayed ? /^\d+\.\d$/ : /^– [a-z]$/, keyOf(profile, fault))
      if (isPlayed) played++
    }
  }
  assert.ok(played >= 150)
})
