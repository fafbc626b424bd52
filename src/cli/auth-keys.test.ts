// tier: all, because it migrates and restarts installations
import assert from 'node:assert/strict'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { command } from '../../test/kit/command.ts'
import { noSealKeys } from '../../test/seal-keys.ts'
import { idleInstallation, type IdleInstallation } from '../../test/installation.ts'
import { accountIdOf } from '../ids.ts'
import { createApplication } from '../applications/manage.ts'
import { renewSeals } from '../oauth/authenticate-rows.ts'
import type { PrivateKeys } from '../oauth/keys.ts'
import { sealKeysOf } from '../oauth/seal-keys.ts'
import type { RootDb } from '../store/db.ts'
import { linkIdentity } from '../users/identities.ts'
import { insertAccount } from '../users/sign-in.ts'
import { readInstallationSettings, withDatabase } from './database.ts'

let here: IdleInstallation
let folder: string
let settings: Record<string, string>
before(async () => {
  here = await idleInstallation()
  ;({ folder } = here)
  settings = { ...here.settings, AUTH_KEYS_FILE: join(folder, 'keys.json') }
  await inDatabase((db) => insertAccount(db, { userId: 'ONE-1', address: `0x${'11'.repeat(20)}` }))
})
after(() => here.close())

const run = async (...words: string[]) => {
  const { code, out, err } = await command(settings, ['auth-keys', ...words])
  return { code, said: out + err }
}
const inDatabase = <T>(work: (db: RootDb) => Promise<T>): Promise<T> =>
  withDatabase(readInstallationSettings(settings), work)
const read = async (file = 'keys.json') => JSON.parse(await readFile(join(folder, file), 'utf8')) as PrivateKeys
const kids = async (file?: string) => {
  const { keys, seals } = await read(file)
  return { keys: keys.map(({ kid }) => kid), seals: seals.map(({ kid }) => kid) }
}
const list = async () => {
  const { said } = await run('authenticate-rows')
  return { said, digest: /--accept ([0-9a-f]{32}) \[--with-sign-ins\]\n$/.exec(said)![1]! }
}
const link = async (subject: string) => {
  const sealKeys = sealKeysOf((await read()).seals)
  const profile = { provider: 'TWO', subject, username: null, imageSrc: null, email: null, emailVerified: null }
  const owner = { accountId: accountIdOf('ONE', '1'), userId: 'ONE-1' as const }
  assert.equal(await inDatabase((db) => linkIdentity({ db, sealKeys }, owner, profile)), 'linked')
}

test('the commands of a change: prepare, switch, drop, each the way back of the one before', async () => {
  assert.equal((await run('prepare')).code, 1, 'without keys')
  await run('create')
  const [a, b] = (await kids()).keys
  const [p] = (await kids()).seals
  for (const early of ['switch', 'drop']) assert.match((await run(early)).said, /prepare/)
  assert.match((await run('prepare')).said, /every server/)
  const [, , c, d] = (await kids()).keys
  const [, q] = (await kids()).seals
  const before = { keys: [a, b, c, d], seals: [p, q] }
  const switched = { keys: [c, d, a, b], seals: [q, p] }
  assert.deepEqual(await kids(), before)
  assert.deepEqual(await kids('keys.public.json'), before)
  assert.match((await run('prepare')).said, /in progress/)
  for (const words of [[], ['--leaked']]) {
    const early = await run('drop', ...words)
    assert.deepEqual([early.code, early.said.includes(`still sign (${a})`)], [1, true], early.said)
  }
  assert.deepEqual(await kids(), before, 'the old keys are not kept as if they were the new ones')
  await link('7')
  for (const there of [switched, before, switched]) {
    await run('switch')
    assert.deepEqual(await kids(), there)
  }
  const { code, said } = await run('drop')
  assert.equal(code, 1)
  assert.match(said, /still seals 1 rows.*rows_renewed/)
  assert.deepEqual(await kids(), switched, 'nothing is dropped')
  // What a start of the authorization server does.
  const sealKeys = sealKeysOf((await read()).seals)
  assert.equal(await inDatabase((db) => renewSeals({ db, sealKeys })), 1)
  const dropped = await run('drop')
  assert.equal(dropped.code, 0)
  assert.ok(dropped.said.startsWith(`${a} is removed, ${c} signs.`), dropped.said)
  assert.match((await run('drop')).said, /no second set/)
  assert.deepEqual(await kids(), { keys: [c, d], seals: [q] })
  assert.equal((await stat(join(folder, 'keys.json'))).mode & 0o777, 0o600)
  assert.doesNotMatch(await readFile(join(folder, 'keys.public.json'), 'utf8'), /"d"/)
  assert.match((await run('authenticate-rows')).said, /^0 applications, 0 linked identities and 0 operators/)
})

test('a rotation ends without its new keys only where the new keys do not sign, and the old ones are what is left', async () => {
  const before = await kids()
  await run('prepare')
  const [, , fresh] = (await kids()).keys
  assert.match((await run('drop', '--prepared', '--leaked')).said, /Give only one option/)
  await run('switch')
  const refused = await run('drop', '--prepared')
  assert.deepEqual([refused.code, /The new keys sign/.test(refused.said)], [1, true])
  await run('switch')
  const sealKeys = sealKeysOf((await read()).seals)
  await inDatabase((db) => renewSeals({ db, sealKeys }))
  assert.ok((await run('drop', '--prepared')).said.startsWith(`${fresh} is removed, ${before.keys[0]} signs.`))
  assert.deepEqual(await kids(), before)
  // A clock that was set back makes no old keys of new ones.
  const [one, two] = (await read()).keys
  const ahead = { ...(await read()), keys: [{ ...one!, iat: 4_102_444_800 }, two!] }
  await writeFile(join(folder, 'keys.json'), JSON.stringify(ahead), { mode: 0o600 })
  await run('prepare')
  assert.match((await run('drop')).said, /still sign/)
  await run('switch')
  await inDatabase(async (db) => renewSeals({ db, sealKeys: sealKeysOf((await read()).seals) }))
  assert.equal((await run('drop')).code, 0)
})

test('after a leak nothing counts that the old key proved, nor its renewal, until an operator has seen it: all of it, and that alone', async () => {
  await run('prepare')
  await run('switch')
  const sealKeys = sealKeysOf((await read()).seals)
  assert.equal(await inDatabase((db) => renewSeals({ db, sealKeys })), 1)
  const { seals: known } = await kids()
  const dropped = await run('drop', '--leaked')
  assert.equal(dropped.code, 0)
  assert.match(dropped.said, /all sealed applications, consents, linked identities and sign-ins are rejected/)
  const { keys, seals } = await kids()
  assert.deepEqual([keys.length, seals.length, known.includes(seals[0]!)], [2, 1, false])

  const moving = '\u001b[2J\u009b1A\u202egnip\\'
  await inDatabase((db) =>
    db
      .insertInto('identities')
      .values(
        [...Array.from({ length: 120 }, (_, n) => `n${n}`), moving].map((subject) => ({
          ...{ provider: 'TWO', subject, account_id: accountIdOf('ONE', '1'), username: 'x' },
        })),
      )
      .execute(),
  )
  const first = await list()
  assert.equal(first.said.match(/ signs in as ONE-1$/gm)?.length, 122)
  assert.match(first.said, /^TWO-7 signs/m)
  assert.ok(first.said.includes('TWO-\\u{1b}[2J\\u{9b}1A\\u{202e}gnip\\u{5c} signs in'))
  // oxlint-disable-next-line no-control-regex -- what must not reach a terminal
  assert.doesNotMatch(first.said, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/)

  await inDatabase((db) => db.insertInto('identities').values({ provider: 'EVIL', subject: '1', account_id: accountIdOf('ONE', '1'), username: 'x' }).execute()) // prettier-ignore
  const refused = await run('authenticate-rows', '--accept', first.digest)
  assert.equal(refused.code, 1)
  assert.match(refused.said, /The rows have changed since you listed them. Nothing was changed/)
  const second = await list()
  assert.match(second.said, /^0 applications, 123 linked identities and 0 operators of the console have no valid seal/m)
  assert.notEqual(second.digest, first.digest)
  await inDatabase((db) => db.deleteFrom('identities').where('provider', '=', 'EVIL').execute())
  assert.match(
    (await run('authenticate-rows', '--accept', first.digest)).said,
    /122 linked identities, 0 operators of the console, 0 rows of sign-ins. 0 identities sign in to their own account again/,
  )
  assert.match((await list()).said, /^0 applications, 0 linked identities and 0 operators/)

  // An identity that has an account of its own, and was moved to another.
  assert.doesNotMatch(second.said, /this link was forged/)
  await inDatabase(async (db) => {
    await insertAccount(db, { userId: 'TWO-half', address: `0x${'22'.repeat(20)}` })
    await db
      .updateTable('identities')
      .set({ account_id: accountIdOf('ONE', '1') })
      .where('subject', '=', 'half')
      .execute()
  })
  const half = await list()
  assert.match(half.said, /^TWO-half signs in as ONE-1, although the identity has its own account$/m)
  assert.match(
    half.said,
    /the identity signs in to its own account again. The other account retains its first identity/,
  )
  assert.match(
    (await run('authenticate-rows', '--accept', half.digest)).said,
    /0 linked identities, 0 operators of the console, 0 rows of sign-ins. 1 identities sign in to their own account again/,
  )
  await inDatabase(async (db) => {
    const rows = await db.selectFrom('identities').select(['subject', 'account_id']).where('subject', 'in', ['half', '1']).orderBy('subject').execute() // prettier-ignore
    assert.deepEqual(rows.map((row) => [row.subject, row.account_id]), [['1', accountIdOf('ONE', '1')], ['half', accountIdOf('TWO', 'half')]]) // prettier-ignore
    const said = { provider: 'TWO', subject: 'half', username: null, imageSrc: null, email: null, emailVerified: null }
    const owner = { accountId: accountIdOf('ONE', '1'), userId: 'ONE-1' as const }
    assert.equal(await linkIdentity({ db, sealKeys: noSealKeys }, owner, said), 'has_own_account')
  })
})

test('applications that are not believed are listed and accepted, all of them and those alone, and renewed with the keys', async () => {
  const application = { clientId: 'shop', name: 'Shop \u001b[2J', network: 'one', kind: 'confidential' as const }
  await inDatabase(async (db) => {
    await db
      .insertInto('networks')
      .values({ chain_id: 1, name: 'one', genesis_hash: Buffer.alloc(32) })
      .execute()
    const draft = { ...application, name: 'Shop', redirectUris: ['https://shop.example/cb'], permissions: ['wallet:read'], allowedOrigins: [], logoUri: null } // prettier-ignore
    await createApplication({ db, sealKeys: noSealKeys }, draft)
    await db.updateTable('applications').set({ name: application.name }).execute()
  })
  const first = await list()
  assert.match(first.said, /^application shop "Shop \\u\{1b\}\[2J" on chain 1: confidential; permissions wallet:read; redirect URIs https:\/\/shop\.example\/cb;.* 1 secrets/m) // prettier-ignore
  await inDatabase((db) => db.updateTable('applications').set({ kind: 'public' }).execute())
  const refused = await run('authenticate-rows', '--accept', first.digest)
  assert.deepEqual([refused.code, /The rows have changed/.test(refused.said)], [1, true])
  await inDatabase((db) => db.updateTable('applications').set({ kind: 'confidential' }).execute())
  assert.match((await run('authenticate-rows', '--accept', first.digest)).said, /^Accepted: 1 applications, 0 consents, 0 linked identities, 0 operators of the console, 0 rows/) // prettier-ignore
  assert.match((await list()).said, /^0 applications, 0 linked/)

  const [made] = (await kids()).seals
  await run('prepare')
  const [, fresh] = (await kids()).seals
  await run('switch')
  assert.deepEqual((await kids()).seals, [fresh, made])
  const early = await run('drop')
  assert.deepEqual([early.code, /still seals 123 rows.*rows_renewed/.test(early.said)], [1, true], early.said)
  // What a start of the authorization server does.
  await inDatabase(async (db) => {
    assert.equal(await renewSeals({ db, sealKeys: sealKeysOf((await read()).seals) }), 123)
  })
  const dropped = await run('drop')
  assert.equal(dropped.code, 0, dropped.said)
  assert.deepEqual((await kids()).seals, [fresh])

  await run('prepare')
  await run('switch')
  await run('drop', '--leaked')
  assert.match(
    (await list()).said,
    /^1 applications, 122 linked identities and 0 operators of the console have no valid seal/m,
  )
})
