import { allowSponsor, spaceOf } from '../../src/devnet/sponsor.ts'
import { readGasContracts } from '../../src/gas/contracts.ts'
import { accountIdOf, type Hex } from '../../src/ids.ts'
import { connectSigner } from '../../src/signer-wire/client.ts'
import { fromHex } from '../../src/hex.ts'
import { TESTED_DELEGATE } from '../delegate.ts'
import { caliburCode } from '../gas/stage.ts'
import type { FaultyNode } from '../nodes/faulty-node.ts'
import { nextAmount, type Part, type Want } from './transactions-client.ts'
import { COINS, type Account, type ChaosWorld, type Prepared } from './transactions-world.ts'

const contracts = readGasContracts(TESTED_DELEGATE)
/** As they are on the chain of the world: of Calibur its stand-in. */
export const GAS = { ...contracts, delegateCode: contracts.delegateCode ?? caliburCode() }
const SPONSOR_NAMES = ['HOUSE', 'OTHER']
const CHAIN_ID = 31_337

/** Of a world whose network is `sponsor`: who sends, and the first 20 bytes of all ids. */
export type Sponsors = { accounts: Account[]; space: Hex }

/** The code of the contracts, where it is not the committed one: of a dispatcher with a mistake. */
export type GasCode = { dispatcherCode: Hex; delegateCode: Hex }

/**
 * What makes a world's network one of `sponsor`: the two contracts, sponsors with coins and the right to send, and people of whom every
 * other one holds nothing. All of it is below what reorganisations reach.
 */
export function withSponsors(code: GasCode = GAS): {
  sponsors: Sponsors
  prepare: (place: { node: FaultyNode; socket: string; accounts: Account[] }) => Promise<Prepared>
} {
  const sponsors: Sponsors = { accounts: [], space: '0x' }
  const prepare = async ({
    node: { anvil },
    socket,
    accounts,
  }: {
    node: FaultyNode
    socket: string
    accounts: Account[]
  }) => {
    await anvil.rpc('anvil_setCode', GAS.dispatcher, code.dispatcherCode)
    await anvil.rpc('anvil_setCode', GAS.delegate, code.delegateCode)
    const signer = connectSigner({ path: socket, timeoutMs: 60_000 })
    for (const name of SPONSOR_NAMES) {
      const { address } = await signer.createAccount({ userId: `SPONSOR-${name}` })
      await anvil.rpc('anvil_setBalance', address, `0x${COINS.toString(16)}`)
      sponsors.accounts.push({ name: `SPONSOR-${name}`, address: address.toLowerCase() as Hex, token: '' })
    }
    signer.close()
    const url = anvil.url
    sponsors.space = await spaceOf(url)
    for (const { address } of sponsors.accounts) await allowSponsor(url, address, TESTED_DELEGATE)
    for (const { address } of accounts.filter(isPoor)) await anvil.rpc('anvil_setBalance', address, '0x0')
    return {
      settings: { NETWORK_GAS: 'sponsor', NETWORK_GAS_SPACE: sponsors.space, NETWORK_DELEGATE: TESTED_DELEGATE },
      fill: async (db: Parameters<Prepared['fill']>[0]) => {
        for (const [index, { name, address }] of sponsors.accounts.entries()) {
          const account_id = accountIdOf('SPONSOR', SPONSOR_NAMES[index]!)
          await db
            .insertInto('accounts')
            .values({ account_id, user_id: name, address: fromHex(address) })
            .execute()
          await db
            .insertInto('sponsors')
            .values({ account_id, chain_id: CHAIN_ID, name: SPONSOR_NAMES[index]! })
            .execute()
        }
      },
    }
  }
  return { sponsors, prepare }
}

/** Every other person holds nothing, ever. */
export const isPoor = (_account: Account, index: number): boolean => index % 2 === 1
export const startOf = ({ accounts }: ChaosWorld, account: Account): bigint =>
  isPoor(account, accounts.indexOf(account)) ? 0n : COINS

/** What the next write of a person is, by chance: most add to a number, some move a token or send coins, some do several at once. */
export function wantOfPerson(world: ChaosWorld, account: Account): Want {
  if (world.roll() >= 0.2) return partOf(world, account)
  const parts = Array.from({ length: 2 + Math.floor(world.roll() * 3) }, () => partOf(world, account))
  return { kind: 'batch', parts }
}

function partOf(world: ChaosWorld, account: Account): Part {
  const kind = world.roll()
  if (kind < 0.15 && startOf(world, account) > 0n) return { kind: 'pay', wei: nextAmount() }
  if (kind >= 0.35) return { kind: 'add', amount: nextAmount() }
  const others = world.accounts.filter(({ address }) => address !== account.address)
  return { kind: 'move', amount: nextAmount(), to: others[Math.floor(world.roll() * others.length)]!.address }
}

/** Some change their mind about what they were told. */
export const isChangedMind = (world: ChaosWorld): boolean => world.roll() < 0.05
