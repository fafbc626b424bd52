import { setImmediate } from 'node:timers/promises'
import type { App } from '../src/app.ts'
import { readGasContracts } from '../src/gas/contracts.ts'
import { saveApplication } from '../src/applications/registry.ts'
import { allowSponsor, spaceOf } from '../src/devnet/sponsor.ts'
import { assertUser, verifyAccessToken } from '../src/http/bearer.ts'
import type { DelegateName, Hex } from '../src/ids.ts'
import type { Sponsor } from '../src/sponsors/sponsors.ts'
import type { SponsorBudget } from '../src/store/sponsor-budget.ts'
import { interruptSteps } from '../src/transactions/crash-points.ts'
import { toBound } from '../src/transactions/intent.ts'
import { sendCancel } from '../src/transactions/lanes/replace.ts'
import { submitTransaction } from '../src/transactions/lanes/submit.ts'
import { restoreAccount } from '../src/users/pregenerate.ts'
import { delegatedCode } from '../src/transactions/sponsors/delegation.ts'
import { TESTED_DELEGATE } from './delegate.ts'
import { artefact, caliburCode } from './gas/stage.ts'
import { until } from './kit/until.ts'
import { writing, type Writer, type Writing } from './writing.ts'

export const GAS_MODES = ['self', 'topup', 'sponsor'] as const
export type GasMode = (typeof GAS_MODES)[number]

const COIN = 10n ** 18n
/** of an application; wei */
const RICH = { perUser: COIN, perApplication: 1_000n * COIN }

/** The world of `writing.ts` on a network whose gas is `sponsor`, with one sponsor, and applications of several budgets. */
export type Sponsored = Writing & {
  house: Sponsor
  /** what accounts delegate to */
  name: DelegateName
  dispatcher: Hex
  /** the code of an account that did */
  delegated: Hex
  /** contracts/GasTargets.sol */
  target: Hex
  /** a person with coins for a value, and for gas where people pay it themselves; sets the network to the mode */
  userOf(mode: GasMode): Promise<Writer>
  /** a person with 0 coins */
  poor(name: string, clientId?: string): Promise<Writer>
  /** the same person at another application, or another replica, which finds the application */
  at(writer: Writer, clientId: string, app?: App): Promise<Writer>
  /** null: nobody pays for its people */
  application(clientId: string, budget: Partial<SponsorBudget> | null): Promise<unknown>
  sponsor(name: string): Promise<Sponsor>
  balanceOf(address: Hex): Promise<bigint>
  submit(writer: Writer, body: { to: Hex; data: Hex; gas?: string }): ReturnType<typeof submitTransaction>
  /** writes that share a transaction: they come while two others are on their way, of people who have delegated; so many of them repeat what was bound */
  inOne<T>(writes: (() => Promise<T>)[], alreadyBound?: number): Promise<T[]>
  /** what a sponsor sent is cancelled by nonce */
  cancelOuter(id: string): Promise<void>
}

export async function sponsored(
  settings: Record<string, string> = {},
  name: DelegateName = TESTED_DELEGATE,
): Promise<Sponsored> {
  const world = await writing(name === 'calibur' ? { SIGNER_CALIBUR: 'on', ...settings } : settings)
  const { rpc, db, signer } = world
  const { chain, app } = world.first
  const { dispatcher, delegate, dispatcherCode, delegateCode } = readGasContracts(name)
  await rpc('anvil_setCode', dispatcher, dispatcherCode)
  await rpc('anvil_setCode', delegate, delegateCode ?? caliburCode())
  chain.gas = 'sponsor'
  chain.delegate = name
  chain.gasSpace = await spaceOf(world.nodeUrl)
  const [deployer] = await rpc<Hex[]>('eth_accounts')
  const hash = await rpc<Hex>('eth_sendTransaction', { from: deployer, data: artefact('GasTarget').bytecode, gas: '0x4c4b40' }) // prettier-ignore
  await world.mine()
  const { contractAddress } = await rpc<{ contractAddress: Hex }>('eth_getTransactionReceipt', hash)

  async function sponsor(label: string): Promise<Sponsor> {
    const userId = `SPONSOR-${label}`
    const { address } = await signer.createAccount({ userId })
    await restoreAccount(db, { userId, address })
    const { account_id: accountId } = await db.selectFrom('accounts').select('account_id').where('user_id', '=', userId).executeTakeFirstOrThrow() // prettier-ignore
    await db.insertInto('sponsors').values({ account_id: accountId, chain_id: 31_337, name: label }).execute()
    await rpc('anvil_setBalance', address, `0x${(100n * COIN).toString(16)}`)
    await allowSponsor(world.nodeUrl, address, name)
    await world.mine()
    return { accountId, chainId: 31_337, name: label, address: address.toLowerCase() as Hex }
  }
  const application: Sponsored['application'] = (clientId, budget) =>
    saveApplication(app, {
      ...{ clientId, name: clientId, chainId: 31_337, kind: 'public', redirectUris: ['http://127.0.0.1/*'] },
      ...{ permissions: ['wallet:read', 'contracts:read', 'contracts:write'], allowedOrigins: [], secretHashes: [] },
      ...{ logoUri: null, isSuspended: false, sponsor: budget && { ...RICH, contracts: null, ...budget } },
    })
  // Its budgets are read under a lock of its row.
  await db.insertInto('networks').values({ chain_id: 31_337, name: 'devnet', genesis_hash: Buffer.alloc(32) }).onConflict((on) => on.doNothing()).execute() // prettier-ignore
  const house = await sponsor('HOUSE')
  await application('demo', RICH)
  await application('small', { perUser: 1_000n })
  await application('none', null)
  await application('one-contract', { contracts: [world.probe] })

  async function poor(name: string, clientId = 'demo'): Promise<Writer> {
    const writer = await world.writer(name)
    await rpc('anvil_setBalance', writer.address, '0x0')
    await world.mine()
    return clientId === 'demo' ? writer : at(writer, clientId)
  }

  let made = 0
  async function userOf(mode: GasMode): Promise<Writer> {
    chain.gas = mode
    const writer = await (mode === 'self' ? world.writer(`self-${made++}`) : poor(`${mode}-${made++}`))
    if (mode !== 'self') await rpc('anvil_setBalance', writer.address, '0x1770')
    await world.mine()
    return writer
  }

  async function at(writer: Writer, clientId: string, replica = app): Promise<Writer> {
    const token = await world.place.token(writer.userId, { client_id: clientId, scope: 'openid wallet:read contracts:write', gid: 'grant' }) // prettier-ignore
    const caller = await verifyAccessToken(replica, token)
    assertUser(caller)
    return { ...caller, name: writer.name }
  }

  const boundCount = async () =>
    Number((await db.selectFrom('operations').select(({ fn }) => fn.countAll().as('all')).executeTakeFirstOrThrow()).all) // prettier-ignore
  let busy = 0

  async function inOne<T>(writes: (() => Promise<T>)[], alreadyBound = 0): Promise<T[]> {
    const before = [await poor(`busy-${busy++}`), await poor(`busy-${busy++}`)]
    for (const writer of before) await world.add(world.first, writer)
    await world.mine()
    const { promise, resolve } = Promise.withResolvers<void>()
    let asked = 0
    let signed = 0
    interruptSteps(app, async (step) => {
      if (step === 'after-sign-operation') signed++
      if (step !== 'after-bind-outer') return
      asked++
      await promise
    })
    const underWay: Promise<unknown>[] = []
    for (const [index, writer] of before.entries()) {
      underWay.push(world.add(world.first, writer))
      await until('it is on its way', () => asked === index + 1)
    }
    const already = await boundCount()
    signed = 0
    const together = Promise.all(writes.map((write) => write()))
    await until('they are bound', async () => (await boundCount()) === already + writes.length - alreadyBound)
    await until('they are signed', () => signed === writes.length)
    // And wait to be packed.
    await setImmediate()
    resolve()
    await Promise.all(underWay)
    interruptSteps(app, null)
    return together
  }

  return {
    ...world,
    ...{ house, name, dispatcher, delegated: delegatedCode(name), target: contractAddress },
    ...{ sponsor, application, poor, userOf, at, inOne },
    balanceOf: async (address) => BigInt(await rpc<Hex>('eth_getBalance', address, 'latest')),
    submit: (writer, body) => submitTransaction(app, writer, body, {}),
    cancelOuter: async (id) => {
      const row = await db.selectFrom('transactions').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
      await sendCancel(app, chain, toBound(row))
    },
  }
}
