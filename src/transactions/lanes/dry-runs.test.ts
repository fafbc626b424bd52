// tier: all, because it fills the limits of sponsors write by write
import { strict as assert } from 'node:assert'
import { after, before, describe, test } from 'node:test'
import { whileMining } from '../../../test/interrupted.ts'
import { sponsored, type Sponsored } from '../../../test/sponsored.ts'
import { until } from '../../../test/kit/until.ts'
import type { Writer } from '../../../test/writing.ts'
import { AppError } from '../../errors.ts'
import type { Hex } from '../../ids.ts'
import { frozenEntry, revoked } from '../../signer-wire/wire.ts'
import { fromHex } from '../../hex.ts'
import { rehearseTransaction, submitTransaction } from './submit.ts'

/** A dry run on a network with sponsors gets the refusals of the write, from the real signer with its own limits. */
const COIN = 10n ** 18n
/** calldata of `ping()` */
const PING: Hex = '0x5c36b186'
const STRATEGIES = ['sponsor', 'topup'] as const
let world: Sponsored

const open = async (settings: Record<string, string>) => void (world = await sponsored(settings))
const give = async (address: Hex, wei: bigint) => {
  await world.rpc('anvil_setBalance', address, `0x${wei.toString(16)}`)
  // Mine a block, so that balances are read again.
  await world.mine()
}
const ping = () => ({ to: world.target, data: PING })
const dry = (writer: Writer) => rehearseTransaction(world.first.app, writer, ping())
const write = (writer: Writer) => whileMining(world, submitTransaction(world.first.app, writer, ping(), {}), 0)
/** Returns the refusal of a request; null if it succeeds. */
const refusalOf = (work: Promise<unknown>): Promise<{ code: string; message: string } | null> =>
  work.then(
    () => null,
    (error: unknown) => {
      assert.ok(error instanceof AppError, String(error))
      return { code: error.code, message: error.message }
    },
  )
const rowsOf = ({ accountId }: Writer) =>
  Promise.all([
    world.db.selectFrom('operations').select('id').where('account_id', '=', accountId).execute(),
    world.db.selectFrom('top_ups').select('ordinal').where('account_id', '=', accountId).execute(),
    world.db.selectFrom('gas_spent').select('wei').where('account_id', '=', accountId).execute(),
  ])

/** Makes the dry run, which stores nothing, then the write. @returns the code of both, or null */
async function bothOf(writer: Writer): Promise<string | null> {
  const before = await rowsOf(writer)
  const { ledgerEntries } = await world.signer.health()
  const dried = await refusalOf(dry(writer))
  assert.deepEqual(await rowsOf(writer), before)
  assert.equal((await world.signer.health()).ledgerEntries, ledgerEntries)
  const written = await refusalOf(write(writer))
  assert.equal(dried?.code ?? null, written?.code ?? null, `${dried?.message} / ${written?.message}`)
  return written?.code ?? null
}

describe('where the signer lets no sponsor pay', () => {
  before(() => open({ SIGNER_GAS_PER_USER_WEI: '0', SIGNER_TOPUP_PER_USER_WEI: '0' }))
  after(() => world?.close())

  for (const gas of STRATEGIES)
    test(`with ${gas} a dry run is refused in the words of the write`, async () => {
      world.first.chain.gas = gas
      const writer = await world.poor(`off-${gas}`)
      const dried = await refusalOf(dry(writer))
      assert.equal(dried?.code, 'sponsor_empty')
      assert.deepEqual(dried, await refusalOf(write(writer)))
    })

  test('who has coins where accounts send writes themselves needs no sponsor, in a dry run neither', async () => {
    world.first.chain.gas = 'topup'
    const writer = await world.poor('off-rich')
    await give(writer.address, COIN)
    assert.equal(await bothOf(writer), null)
  })
})

describe('where the signer has limits', () => {
  before(() =>
    open({
      SIGNER_GAS_PER_USER_WEI: String(7n * 10n ** 14n),
      SIGNER_TOPUP_PER_USER_WEI: String(7n * 10n ** 14n),
      SIGNER_GAS_PER_SPONSOR_WEI: String(4n * 10n ** 15n),
      SIGNER_TOPUP_PER_SPONSOR_WEI: String(3n * 10n ** 15n),
    }),
  )
  after(() => world?.close())

  test('while a top-up of a person is under way a dry run asks for no other one, as the write waits for it', async () => {
    world.first.chain.gas = 'topup'
    const ann = await world.poor('under-way')
    const { app } = world.first
    const { signer } = app
    const written = submitTransaction(app, ann, ping(), {})
    await until('it is sent', async () => {
      const sent = await world.db.selectFrom('transactions').select('id').where('target', '=', fromHex(ann.address)).where('state', '=', 'SUBMITTED').execute() // prettier-ignore
      return sent.length > 0
    })
    const asked: string[] = []
    app.signer = { ...signer, check: (request) => (asked.push(request.from.toLowerCase()), signer.check(request)) }
    try {
      assert.equal((await dry(ann)).status, 'SUCCESS')
    } finally {
      app.signer = signer
    }
    assert.deepEqual(asked, [ann.address])
    await whileMining(world, written, 0)
    assert.equal(await bothOf(await world.poor('not-under-way')), null)
  })

  for (const gas of STRATEGIES) {
    test(`with ${gas} a sponsor without coins, or that the signer freezes, fails a dry run as the write, until another one can`, async () => {
      world.first.chain.gas = gas
      const { house, signer, place } = world
      await give(house.address, 0n)
      assert.equal(await bothOf(await world.poor(`empty-${gas}`)), 'sponsor_empty')
      await give(house.address, 100n * COIN)
      let at = Date.now()
      const freeze = async (isFrozen: boolean) =>
        signer.bringRevocations([
          await place.revocations({ entries: [frozenEntry(revoked.user('SPONSOR-HOUSE'), { isFrozen, at: ++at })] }),
        ])
      await freeze(true)
      try {
        assert.equal(await bothOf(await world.poor(`frozen-${gas}`)), 'sponsor_empty')
        const other = await world.sponsor(`OTHER_${gas.toUpperCase()}`)
        // The list of sponsors is cached for a few seconds.
        await world.clock.advance(5_001)
        const ann = await world.poor(`other-${gas}`)
        await until('the other one is known', async () => (await refusalOf(dry(ann))) === null)
        for (const name of ['one', 'two', 'three'])
          assert.equal(await bothOf(await world.poor(`other-${gas}-${name}`)), null)
        if (gas === 'sponsor') assert.equal((await dry(ann)).tx.from.toLowerCase(), other.address)
        await drop(other.address)
      } finally {
        await freeze(false)
      }
    })

    test(`with ${gas} a dry run of who has room passes, and at the limit it is refused, as the write`, async () => {
      world.first.chain.gas = gas
      const writer = await world.poor(`limit-${gas}`)
      let [done, code] = [0, await bothOf(writer)]
      while (code === null && done++ < 20) {
        await give(writer.address, 0n)
        code = await bothOf(writer)
      }
      assert.ok(done > 0, 'there was room')
      assert.equal(code, 'gas_budget_exhausted')
      assert.deepEqual((await refusalOf(dry(writer)))!.message.match(/rule \S+/)![0], gas === 'sponsor' ? 'rule sponsored-per-user' : 'rule top-up-per-user') // prettier-ignore
      // Other users have separate limits.
      assert.equal(await bothOf(await world.poor(`room-${gas}`)), null)
    })

    test(`with ${gas} dry runs take nothing of the limits: after fifty there is room for the write`, async () => {
      world.first.chain.gas = gas
      const writer = await world.poor(`fifty-${gas}`)
      for (let times = 0; times < 50; times++) assert.equal((await dry(writer)).status, 'SUCCESS')
      assert.equal(await refusalOf(write(writer)), null)
    })

    test(`with ${gas} a dry run is refused where the sponsor is at its limit, and passes by another one that has room, as the write`, async () => {
      world.first.chain.gas = gas
      let [people, code] = [0, null as string | null]
      while (code === null && people++ < 60) code = await bothOf(await world.poor(`many-${gas}-${people}`))
      assert.equal(code, gas === 'sponsor' ? 'sponsor_empty' : 'gas_budget_exhausted')
      const ann = await world.poor(`reserve-${gas}`)
      const reserve = await world.sponsor(`RESERVE_${gas.toUpperCase()}`)
      await world.clock.advance(5_001)
      await until('the other one is known', async () => (await refusalOf(dry(ann))) === null)
      if (gas === 'sponsor') assert.equal((await dry(ann)).tx.from.toLowerCase(), reserve.address)
      assert.equal(await bothOf(ann), null)
      assert.equal(await bothOf(await world.poor(`reserve-too-${gas}`)), null)
      await drop(reserve.address)
    })
  }
})

async function drop(address: Hex): Promise<void> {
  const { account_id: accountId } = await world.db.selectFrom('accounts').select('account_id').where('address', '=', fromHex(address)).executeTakeFirstOrThrow() // prettier-ignore
  await world.db.deleteFrom('sponsors').where('account_id', '=', accountId).execute()
}
