import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { testDatabase, type TestDatabase } from '../../../test/kit/database.ts'
import { systemClock } from '../../clock.ts'
import { AppError, type ErrorCode } from '../../errors.ts'
import { respondToWrite } from './respond.ts'

let database: TestDatabase
before(async () => void (database = await testDatabase()))
after(() => database.close())

/** Makes one write. @returns how often its quota charge was returned */
async function givenBack(
  send: () => Promise<{ answer: { id: string; state: 'SUBMITTED'; status: 'SUCCESS' }; isReplay: boolean }>,
): Promise<number> {
  let times = 0
  const app = {
    clock: systemClock,
    db: database.db,
    chains: new Map([[5, { chainId: 5, gas: 'sponsor', topUpContracts: new Set() }]]),
  }
  const request = {
    ...{ query: {}, headers: {}, body: {}, caller: { chainId: 5 } },
    ...{ standAside: () => true, quotaCharge: { giveBack: () => void times++ } },
  }
  const reply = { header: () => reply }
  const rehearse = () => Promise.reject(new Error('nobody asked for that'))
  await respondToWrite(app as never, request as never, reply as never, { send, rehearse }).catch((error: unknown) => {
    if (!(error instanceof AppError)) throw error
  })
  return times
}

test('of a quota nothing is taken by what was not begun, nor by a repeat; by every other refusal and answer it is', async () => {
  const refusals: [ErrorCode, number][] = [
    ['overloaded', 1],
    ['top_up_pending', 1],
    ['sponsor_empty', 1],
    ['gas_budget_exhausted', 0],
    ['insufficient_funds', 0],
    ['policy_denied', 0],
    ['execution_reverted', 0],
    ['signer_unavailable', 0],
  ]
  for (const [code, times] of refusals) assert.equal(await givenBack(() => Promise.reject(new AppError(code, code))), times, code) // prettier-ignore
  const answer = { id: 'tx_1', state: 'SUBMITTED', status: 'SUCCESS' } as const
  for (const isReplay of [false, true])
    assert.equal(await givenBack(async () => ({ answer, isReplay })), isReplay ? 1 : 0)
})
