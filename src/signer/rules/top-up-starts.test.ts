import assert from 'node:assert/strict'
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { command } from '../../../test/kit/command.ts'
import { countingNode } from '../../../test/nodes/counting-node.ts'
import { productionSigner } from '../../../test/production-signer.ts'
import { ALICE, ask, BOB, CHAIN_ID, refusal, world, type Place } from '../../../test/kit/signer.ts'
import { readSettings } from '../settings.ts'
import { DATABASE_FILE } from '../store.ts'
import { verifyStore } from '../programs/verify.ts'

const HOUSE = 'SPONSOR-HOUSE'
const RESERVE = 'SPONSOR-RESERVE'

const denied = (rule: string, why = '') => (error: unknown) =>
  refusal('policy_denied')(error) && new RegExp(`The rule ${rule} rejects this transaction: ${why}`).test((error as Error).message) // prettier-ignore

test('in production no top-up is signed until the operator sets both limits, and then within them', async (t) => {
  const { env, offer, newKey, trust, start } = await productionSigner(t)
  const key = await newKey('first')
  offer(key.jwk)
  assert.equal((await trust('--accept', key.fingerprint)).code, 0)
  for (const [settings, answer] of [
    [{}, 'top-up-off'],
    [{ SIGNER_TOPUP_PER_USER_WEI: '1000' }, 'top-up-off'],
    [{ SIGNER_TOPUP_PER_SPONSOR_WEI: '1000' }, 'top-up-off'],
    [{ SIGNER_TOPUP_PER_USER_WEI: '1000', SIGNER_TOPUP_PER_SPONSOR_WEI: '0' }, 'top-up-off'],
    [{ SIGNER_TOPUP_PER_USER_WEI: '999', SIGNER_TOPUP_PER_SPONSOR_WEI: '1000' }, 'top-up-per-user'],
    [{ SIGNER_TOPUP_PER_USER_WEI: '1000', SIGNER_TOPUP_PER_SPONSOR_WEI: '999' }, 'top-up-per-sponsor'],
    [{ SIGNER_TOPUP_PER_USER_WEI: '1000', SIGNER_TOPUP_PER_SPONSOR_WEI: '1000' }, null],
  ] as const) {
    for (const name of ['SIGNER_TOPUP_PER_USER_WEI', 'SIGNER_TOPUP_PER_SPONSOR_WEI']) delete env[name]
    Object.assign(env, settings)
    const signer = await start()
    t.after(() => signer.end('SIGKILL'))
    await signer.bringRevocations([await key.list()])
    const [{ address: to }, { address: from }] = [await signer.createAccount({ userId: ALICE }), await signer.createAccount({ userId: HOUSE })] // prettier-ignore
    const request = ask(from, { to, value: '1000', gas: '0', accessToken: await key.token() })
    if (answer === null) assert.equal((await signer.sign(request)).rule, 'top-up')
    else await assert.rejects(signer.sign(request), denied(answer), JSON.stringify(settings))
    await signer.end('SIGTERM')
  }
})

test('in development a person may get one of the native currency a day, and a sponsor give a thousand', () => {
  const env = { SIGNER_SOCKET: '/a', SIGNER_DIR: '/b', SIGNER_KEK_FILE: '/c', SIGNER_JWKS_FILE: '/d' }
  const origin = { SIGNER_ISSUER: 'https://a.example/oauth', SIGNER_AUDIENCE: 'https://a.example/v1', SIGNER_CHAINS: '1' } // prettier-ignore
  const limitsOf = (isDevelopment: boolean) => {
    const { topUpPerUserWei, topUpPerSponsorWei } = readSettings({ ...env, ...origin }, { isDevelopment }).limits
    return [topUpPerUserWei, topUpPerSponsorWei]
  }
  assert.deepEqual(limitsOf(true), [10n ** 18n, 10n ** 21n])
  assert.deepEqual(limitsOf(false), [0n, 0n])
})

async function accept(place: Place, ...args: string[]): Promise<string> {
  const { out, err } = await command(place.env, ['signer', 'accept-restore', ...args])
  return out + err
}

test('after a restore that lost nonces of one sponsor nobody is topped up for a day, by any; without such a loss as before', async (t) => {
  const { place, signer, address, accessToken, again } = await world(t)
  const [{ address: house }, { address: reserve }] = [await signer.createAccount({ userId: HOUSE }), await signer.createAccount({ userId: RESERVE })] // prettier-ignore
  const { address: bob } = await signer.createAccount({ userId: BOB })
  const give = (from: `0x${string}`, nonce: number) =>
    ask(from, { nonce, to: address, intentId: `${from}_${nonce}`, accessToken })
  const own = (nonce: number) => ask(address, { nonce, intentId: `own_${nonce}`, accessToken })
  await signer.sign(give(house, 0))
  await signer.sign(own(0))
  await signer.end('SIGTERM')
  const store = join(place.env.SIGNER_DIR!, DATABASE_FILE)
  const rollBack = async (
    lose: (later: typeof signer) => Promise<unknown>,
    counts: Record<string, [string, string]>,
  ) => {
    copyFileSync(store, join(place.folder, 'old'))
    const later = await again()
    await lose(later)
    await later.end('SIGTERM')
    copyFileSync(join(place.folder, 'old'), store)
    const url = await countingNode(t, counts)
    const shown = await accept(place, '--rpc-url', url)
    const done = await accept(place, '--rpc-url', url, '--accept', /--accept ([0-9a-f]{16})$/m.exec(shown)![1]!)
    assert.match(done, /Accepted as record/)
    return again()
  }
  const isFull =
    'topUp.periodAmount counts as used after a restore that lost signatures, or may have lost them, more is available from 20'
  // Lost nonces of a user's own account affect only that user's limits.
  const person = await rollBack(async (later) => later.sign(own(1)), { [address.toLowerCase()]: ['0x2', '0x2'] })
  await person.sign(give(house, 1))
  await person.end('SIGTERM')
  const sponsor = await rollBack(async (later) => later.sign(give(house, 2)), {
    [address.toLowerCase()]: ['0x2', '0x2'],
    [house.toLowerCase()]: ['0x3', '0x3'],
  })
  await assert.rejects(sponsor.sign(give(house, 3)), denied('top-up-per-user', isFull))
  await assert.rejects(sponsor.sign(give(reserve, 0)), denied('top-up-per-user', isFull))
  const forBob = { ...give(reserve, 0), to: bob, accessToken: await place.token(BOB, { chain_id: CHAIN_ID }) }
  await assert.rejects(sponsor.sign(forBob), denied('top-up-per-user', isFull))
  await sponsor.sign(own(2))
  assert.deepEqual(verifyStore(place.env.SIGNER_DIR!).problems, [])
})
