import { existsSync } from 'node:fs'
import { Command } from 'commander'
import { readSome } from '../config.ts'
import { identityKeysOf, newIdentityKey, type IdentityKey } from '../oauth/identity-keys.ts'
import { changeKeys, loadKeys, newKey, type PrivateKey } from '../oauth/keys.ts'
import { countOnOlderKeys, listUnproven, proveIdentities } from '../users/prove-identities.ts'
import { readInstallationSettings, withDatabase } from './database.ts'

/** `chatelaine auth-keys …`: the keys of the authorization server, which production does not make by itself. */
export function authKeys(): Command {
  const command = new Command('auth-keys').description('keys of the authorization server')
  command
    .command('create')
    .description('write new keys to AUTH_KEYS_FILE and the public keys beside it; never overwrites a file')
    .action(create)
  command
    .command('prepare')
    .description('first step of a key rotation: new keys that are published and do not sign yet')
    .action(prepare)
  command
    .command('switch')
    .description('second step: the new keys sign, the old ones are still accepted; run it again to go back')
    .action(switchOver)
  command
    .command('fingerprints')
    .description('of the keys that tokens are signed with, the one in use first: for `chatelaine signer trust-key`')
    .action(async () => {
      for (const { alg, kid } of (await loadKeys({ ...files(), create: false })).keys)
        if (alg === 'ES256') console.log(kid)
    })
  command
    .command('prove-identities')
    .description('list identities that were linked to an account and are not proven; the first step after an update')
    .option('--accept <digest>', 'prove those that were listed, and no others: what the list ends with')
    .action(prove)
  command
    .command('drop')
    .description('last step: keep only the keys that sign')
    .option(
      '--leaked',
      'the old keys are in foreign hands: no linked identity is proven any more, until it is listed and accepted anew',
    )
    .option('--prepared', 'end the rotation without its keys: remove the new ones, which must not sign')
    .action(drop)
  return command
}

function files(): { keysFile: string; jwksFile: string } {
  const { AUTH_KEYS_FILE: keysFile, AUTH_JWKS_FILE } = readSome(process.env, ['AUTH_KEYS_FILE', 'AUTH_JWKS_FILE'])
  if (keysFile === undefined) throw new Error('AUTH_KEYS_FILE is missing: the file to write.')
  return { keysFile, jwksFile: AUTH_JWKS_FILE ?? `${keysFile.replace(/\.json$/, '')}.public.json` }
}

async function create(): Promise<void> {
  const { keysFile, jwksFile } = files()
  if (existsSync(keysFile))
    throw new Error(
      `${keysFile} already exists: replacing it would end every session. To rotate the keys: auth-keys prepare.`,
    )
  const { keys } = await loadKeys({ keysFile, jwksFile, create: true })
  const fingerprint = keys.find(({ alg }) => alg === 'ES256')!.kid
  console.log(
    `Private keys: ${keysFile} (readable by the server's user only)\nPublic keys:  ${jwksFile} (SIGNER_JWKS_FILE)\nFingerprint:  ${fingerprint} (chatelaine signer trust-key --accept)`,
  )
}

async function prepare(): Promise<void> {
  await changeKeys(files(), ({ keys, identities }) => {
    if (isUnderWay(keys))
      throw new Error('A key rotation is in progress: finish it with auth-keys switch and auth-keys drop.')
    const proving = identities === undefined ? {} : { identities: [...identities, newIdentityKey()] }
    // Later than all there are, also where a clock was set back: `drop` goes by it.
    const iat = Math.max(Date.now() / 1_000, ...keys.map((key) => madeAt(key) + 1))
    return { keys: [...keys, { ...newKey('ES256'), iat }, { ...newKey('RS256'), iat }], ...proving }
  })
  console.log(
    'New keys are prepared. Let the signer trust them (auth-keys fingerprints, signer trust-key --accept) and restart every server, so that all of them publish and accept the keys; then: switch.',
  )
}

async function switchOver(): Promise<void> {
  await changeKeys(files(), ({ keys, identities }) => {
    assertUnderWay(keys)
    const signing = signingOf(keys)
    const proving = identities === undefined ? {} : { identities: identities.toReversed() }
    return { keys: [...keys.filter((key) => !signing.includes(key)), ...signing], ...proving }
  })
  console.log(
    'The other keys sign once every server has been restarted. Wait SESSION_SECONDS before drop: people who come back within that time stay signed in.',
  )
}

/** For leaked keys nothing stays that the key of before, or a renewal of what it signed, has proven: a thief may have made it. */
async function drop({ leaked = false, prepared = false }: { leaked?: boolean; prepared?: boolean }): Promise<void> {
  if (leaked && prepared)
    throw new Error('--leaked removes the old keys, --prepared the new ones. Nothing was changed: say one of them.')
  const before = await loadKeys({ ...files(), create: false })
  assertDroppable(before.keys, prepared)
  if (!leaked && before.identities !== undefined) await assertRenewed(before.identities)
  let [kept, removed] = ['', '']
  await changeKeys(files(), ({ keys, identities }) => {
    assertDroppable(keys, prepared)
    const signing = signingOf(keys)
    ;[kept, removed] = [fingerprintOf(signing), fingerprintOf(othersOf(keys))]
    const [proving] = identities ?? []
    return {
      keys: signing,
      ...(proving === undefined ? {} : { identities: [leaked ? newIdentityKey() : proving] }),
    }
  })
  console.log(
    `${removed} is removed, ${kept} signs. Restart every server; what the removed keys signed is not accepted from then on, nor by the signer after signer trust-key --remove ${removed}.`,
  )
  if (leaked && before.identities !== undefined)
    console.log('No linked identity is proven any more: it is refused from that start on, until auth-keys prove-identities has listed it and you accepted it, or its person links it again.') // prettier-ignore
}

/** @throws Error where an identity would be refused without the keys that go */
async function assertRenewed(identities: IdentityKey[]): Promise<void> {
  const identityKeys = identityKeysOf(identities)
  const count = await withDatabase(readInstallationSettings(), (db) => countOnOlderKeys({ db, identityKeys }))
  if (count > 0)
    throw new Error(
      `The old key still proves ${count} linked identities, and without it they would be refused. Start the authorization server with the keys of switch: it renews the proofs, and says so (identities_proven). Then: drop. For leaked keys: drop --leaked.`,
    )
}

/** The key is written after what it has proven: a run that was ended is run again, and nothing is refused meanwhile. */
async function prove({ accept }: { accept?: string }): Promise<void> {
  const before = await loadKeys({ ...files(), create: false })
  const identities = before.identities ?? [newIdentityKey()]
  await withDatabase(readInstallationSettings(), async (db) => {
    const prover = { db, identityKeys: identityKeysOf(identities) }
    if (accept !== undefined) {
      const done = await proveIdentities(prover, accept)
      if (done === null)
        throw new Error('The linked identities that are not proven are others than were listed. Nothing was changed: list them again, and accept what that list ends with.') // prettier-ignore
      const { proven, ledBack } = done
      if (before.identities === undefined) await changeKeys(files(), ({ keys }) => ({ keys, identities }))
      console.log(`${proven} identities are proven, ${ledBack} are led back to the account that is theirs.`)
      if (before.identities === undefined)
        console.log('From the next start of every server no other identity leads to an account of another. Run this again then, for those that were linked meanwhile.') // prettier-ignore
      return
    }
    const rows = listUnproven(prover)
    let count = 0
    for (;;) {
      const { done, value } = await rows.next()
      if (done === true) return console.log(endOfList(count, value))
      count += 1
      const { identity, userId, isMoved } = value
      console.log(`${plain(identity)} signs in as ${plain(userId)}${isMoved ? ', although it has an account of its own' : ''}`) // prettier-ignore
    }
  })
}

const endOfList = (count: number, digest: string): string =>
  `${count} linked identities are not proven. Those are proven that have no account of their own, and the others led back to it, with:\n  chatelaine auth-keys prove-identities --accept ${digest}`

/** What someone wrote into the table as it is safe to show: nothing in it moves a cursor or turns the reading around. */
const plain = (text: string): string =>
  text.replaceAll(/[\\\p{C}\p{Zl}\p{Zp}]/gu, (sign) => `\\u{${sign.codePointAt(0)!.toString(16)}}`)

/** The first of each algorithm signs. */
const signingOf = (keys: PrivateKey[]): PrivateKey[] =>
  keys.filter(({ alg }, index) => keys.findIndex((other) => other.alg === alg) === index)

/** The others stay to verify. */
const othersOf = (keys: PrivateKey[]): PrivateKey[] => {
  const signing = signingOf(keys)
  return keys.filter((key) => !signing.includes(key))
}

/** As `auth-keys fingerprints` and `signer trust-key` name a set. */
const fingerprintOf = (keys: PrivateKey[]): string =>
  keys
    .filter(({ alg }) => alg === 'ES256')
    .map(({ kid }) => kid)
    .join(' ')

/** Keys of an earlier version do not say when they were made: before those that do. */
const madeAt = ({ iat }: PrivateKey): number => (typeof iat === 'number' ? iat : 0)

const isUnderWay = (keys: PrivateKey[]): boolean => keys.length > 2

function assertUnderWay(keys: PrivateKey[]): void {
  if (!isUnderWay(keys)) throw new Error('There is no second set of keys: start with auth-keys prepare.')
}

/** What does not sign goes: it must be what the rotation is rid of, the old keys, or the new ones where it ends without them. */
function assertDroppable(keys: PrivateKey[], prepared: boolean): void {
  assertUnderWay(keys)
  const [signing, others] = [signingOf(keys), othersOf(keys)].map((some) => Math.max(...some.map(madeAt)))
  if (!prepared && signing! < others!)
    throw new Error(
      `The old keys still sign (${fingerprintOf(signingOf(keys))}), and drop would keep them. Nothing was changed: auth-keys switch comes first, and a restart of every server. To stay with the old ones: drop --prepared.`,
    )
  if (prepared && signing! >= others!)
    throw new Error(
      'The new keys sign. Nothing was changed: auth-keys switch goes back, and a restart of every server.',
    )
}
